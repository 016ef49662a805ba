"""The numbers are those of splitmix64, the same everywhere."""

from replay.explore.numbers import RandomNumbers, seed_of


def test_numbers_are_those_of_the_reference_implementation() -> None:
    numbers = RandomNumbers(1234567)
    found = [numbers.next() for _ in range(5)]
    assert found == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_same_seed_makes_the_same_choices() -> None:
    def choices(seed: int) -> list[object]:
        numbers = RandomNumbers(seed)
        return [
            numbers.below(10),
            numbers.between(5, 6),
            numbers.choice("abc"),
            numbers.sample(range(10), 3),
            numbers.weighted((("rare", 1), ("often", 9))),
        ]

    assert choices(5) == choices(5)
    assert choices(5) != choices(6)


def test_random_numbers_are_within_their_bounds() -> None:
    numbers = RandomNumbers(0)
    assert {numbers.between(2, 4) for _ in range(100)} == {2, 3, 4}
    assert sorted(numbers.sample([1, 2, 3], 9)) == [1, 2, 3]


def test_seeds_of_runs_differ() -> None:
    assert len({seed_of(7, run) for run in range(1000)}) == 1000
