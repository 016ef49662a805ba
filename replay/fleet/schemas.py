"""Conversion of Arrow schemas to Spark schemas, and selection of columns."""

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from replay.fleet.errors import FleetError


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema for an Arrow schema."""
    return from_arrow_schema(schema)


def selected_columns(schema: pa.Schema, columns: str | None) -> pa.Schema:
    """The columns that are named in `columns` ("a, b"); all columns if it is None. Raises
    FleetError."""
    if columns is None:
        return schema
    names = [name.strip() for name in columns.split(",") if name.strip()]
    for name in names:
        if name not in schema.names:
            raise FleetError(f"unknown column {name!r}; use one of: {', '.join(schema.names)}")
    return pa.schema([schema.field(name) for name in names])


def requested_schema(schema: pa.Schema, requested: StructType) -> pa.Schema:
    """The schema that Spark requests as an Arrow schema. Raises FleetError unless it is part of
    `schema`."""
    requested_arrow = to_arrow_schema(requested, timezone="UTC")
    for field in requested_arrow:
        if field.name not in schema.names:
            raise FleetError(
                f"unknown column {field.name!r}; use one of: {', '.join(schema.names)}"
            )
        if field.type != schema.field(field.name).type:
            expected = schema.field(field.name).type
            raise FleetError(f"column {field.name} has type {expected}, not {field.type}")
    return requested_arrow
