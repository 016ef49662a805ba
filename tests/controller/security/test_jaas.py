from pathlib import Path

import pytest

from controller.security.errors import SecurityError
from controller.security.jaas import LoginEntry, entry_of, parse_entry, read_sections

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_entry_has_its_module_and_options() -> None:
    entry = parse_entry(
        f'{PLAIN} required\n  username=admin password="a \\"quoted\\" = ; secret" // a comment\n;',
        "the.key",
    )
    assert entry.module == PLAIN
    assert entry.options == {"username": "admin", "password": 'a "quoted" = ; secret'}


def test_value_may_be_in_single_quotes() -> None:
    entry = parse_entry(f"{PLAIN} required password='it is; \"x\\'' username=\"d'or\";", "key")
    assert entry.options == {"password": "it is; \"x'", "username": "d'or"}


def test_sections_of_a_file_are_read(tmp_path: Path) -> None:
    file = tmp_path / "jaas.conf"
    file.write_text(
        f"""/* Two
        sections */ Client {{ {PLAIN} required username="a"; {PLAIN} optional username="b"; }};
        # and
        secure.KafkaServer {{ {PLAIN} SUFFICIENT username="c"; }};"""
    )
    found = read_sections(file, "refold.login.config")
    assert {name: [one.options["username"] for one in all] for name, all in found.items()} == {
        "Client": ["a", "b"],
        "secure.KafkaServer": ["c"],
    }


def test_entry_of_a_section_is_chosen_by_its_module() -> None:
    entries = [
        LoginEntry("x.Other", {"username": "a", "user_a": "1"}),
        LoginEntry(PLAIN, {"username": "b", "user_b": "2"}),
        LoginEntry(PLAIN, {"username": "c", "user_c": "3"}),
    ]
    found = entry_of(entries, PLAIN)
    assert found == LoginEntry(PLAIN, {"username": "b", "user_b": "2", "user_c": "3"})
    assert entry_of(entries, "x.Missing") == entries[0]


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"{PLAIN};",
        f"{PLAIN} always user=a;",
        f"{PLAIN} required password=topsecret",
        f"{PLAIN} required password topsecret;",
        f'{PLAIN} required password="topsecret;',
        f"{PLAIN} required password=topsecret; {PLAIN} required;",
    ],
)
def test_error_names_the_setting_and_no_secret(text: str) -> None:
    with pytest.raises(SecurityError) as raised:
        parse_entry(text, "the.key")
    assert str(raised.value).startswith("the.key")
    assert "topsecret" not in str(raised.value)


def test_unreadable_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SecurityError, match=r"refold\.login\.config .*: No such file"):
        read_sections(tmp_path / "absent", "refold.login.config")


def test_text_of_an_entry_has_no_password() -> None:
    entry = parse_entry(f"{PLAIN} required password=topsecret;", "the.key")
    assert "topsecret" not in f"{entry} {entry!r}"
