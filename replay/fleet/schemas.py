"""Arrow's schemas as Spark's, and what a caller wants of one."""

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from replay.fleet.errors import FleetError


def spark_schema(schema: pa.Schema) -> StructType:
    """The schema as Spark has it."""
    return from_arrow_schema(schema)


def part_of(schema: pa.Schema, columns: str | None) -> pa.Schema:
    """Only these columns, given as "a, b"; all where none are given. Raises FleetError."""
    if columns is None:
        return schema
    names = [name.strip() for name in columns.split(",") if name.strip()]
    for name in names:
        if name not in schema.names:
            raise FleetError(f"there is no column {name!r}: there are {', '.join(schema.names)}")
    return pa.schema([schema.field(name) for name in names])


def wanted(schema: pa.Schema, asked: StructType) -> pa.Schema:
    """The schema that a reader was asked for, which is a part of `schema`. Raises FleetError."""
    made = to_arrow_schema(asked, timezone="UTC")
    for field in made:
        if field.name not in schema.names:
            raise FleetError(
                f"there is no column {field.name!r}: there are {', '.join(schema.names)}"
            )
        if field.type != schema.field(field.name).type:
            expected = schema.field(field.name).type
            raise FleetError(f"column {field.name} is {expected}, not {field.type}")
    return made
