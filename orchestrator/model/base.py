"""What all documents share: closed frozen models, strict parsing, canonical bytes, small typed strings."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)

from orchestrator.core.canonical import canonical_bytes, sha256_hex
from orchestrator.core.errors import DocumentError
from orchestrator.core.strictjson import MAX_BYTES, parse_json


def _on_the_calendar(text: str) -> str:
    """Returns the time; the thirteenth month, hour 24 or the sixty-first second is none."""
    if text[11:13] == "24":
        # Some Pythons take it for the next day's midnight, others refuse it.
        raise ValueError("hour must be in 0..23")
    datetime.fromisoformat(text)
    return text


def _day_of_the_calendar(text: str) -> str:
    date.fromisoformat(text)
    return text


Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
GitId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
ImageId = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
SLUG = r"^[a-z0-9][a-z0-9._-]{0,79}$"
Slug = Annotated[str, StringConstraints(pattern=SLUG)]
RuntimeName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$")]
UtcTime = Annotated[
    str,
    StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$"),
    AfterValidator(_on_the_calendar),
]
Day = Annotated[
    str,
    StringConstraints(pattern=r"^\d{4}-\d\d-\d\d$"),
    AfterValidator(_day_of_the_calendar),
]
Text = Annotated[str, StringConstraints(min_length=1)]
T = TypeVar("T")


class Closed(BaseModel):
    """A frozen part of a document: no unknown field, no coercion."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def digest_sha256(self) -> str:
        """Returns the SHA-256 over the RFC 8785 bytes."""
        return sha256_hex(self.canonical())

    def canonical(self) -> bytes:
        """Returns the RFC 8785 bytes."""
        return canonical_bytes(self.model_dump(mode="json"))

    @classmethod
    def parse_canonical(cls, data: bytes, *, where: str, max_bytes: int = MAX_BYTES) -> Self:
        """Parses what must be its own RFC 8785 bytes.

        Equality with the canonical bytes refuses all that strict JSON refuses (a duplicate key, other
        spacing, a huge number would not come out again), so the strict reader need not run first.

        Raises:
            DocumentError: too large, not this schema, or not its canonical bytes.
        """
        if len(data) > max_bytes:
            raise _not_canonical(cls, where, f"{len(data)} bytes, more than {max_bytes}")
        document = cls._validated(data, where)
        try:
            canonical = document.canonical()
        except ValueError as error:
            raise _not_canonical(cls, where, str(error)) from error
        if canonical != data:
            raise _not_canonical(cls, where, "other spacing, order or escapes")
        return document

    @classmethod
    def _validated(cls, data: bytes, where: str) -> Self:
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            raise DocumentError(
                "document-invalid",
                f"{where}: expected a valid {cls.__name__}, found {_problems(error)}",
                hint=f"compare the document with schemas/{schema_name(cls)}.json",
            ) from error


def schema_name(document: type[BaseModel]) -> str:
    """Returns the file name (without suffix) of a document's schema: `RunReport` -> `run-report`."""
    name = document.__name__
    return "".join(f"-{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(name))


class Document(Closed):
    """A whole document, with the version of its schema."""

    schema_version: Literal[1] = 1

    @classmethod
    def parse(cls, data: bytes, *, where: str, max_bytes: int = MAX_BYTES) -> Self:
        """Parses and validates one document.

        Args:
            data: the exact bytes.
            where: name of the document for the error text.
            max_bytes: upper bound of the size, in bytes.

        Raises:
            DocumentError: not strict JSON, or not this schema; the text names every field at fault.
        """
        parse_json(data, where=where, max_bytes=max_bytes)
        return cls._validated(data, where)


def parse_one_of(adapter: TypeAdapter[T], data: bytes, *, where: str, what: str, schema: str) -> T:
    """Validates one of several documents that a field tells apart.

    Args:
        adapter: of the union.
        data: the exact bytes.
        where: name of the document for the error text.
        what: what it should be, in words.
        schema: file name (without suffix) of the published schema.

    Raises:
        DocumentError: not strict JSON, or none of them; the text names every field at fault.
    """
    parse_json(data, where=where)
    try:
        return adapter.validate_json(data)
    except ValidationError as error:
        raise DocumentError(
            "document-invalid",
            f"{where}: expected a valid {what}, found {_problems(error)}",
            hint=f"compare the document with schemas/{schema}.json",
        ) from error


def require_canonical(document: Closed, data: bytes, *, where: str, what: str) -> None:
    """Refuses bytes that are not the RFC 8785 bytes of the document that was read from them.

    Raises:
        DocumentError: they are others.
    """
    if document.canonical() != data:
        raise DocumentError(
            "document-not-canonical",
            f"{where}: expected the RFC 8785 bytes of a {what}, found others",
            hint="restore the file from a copy; memtrial writes canonical bytes only",
        )


def _not_canonical(document: type[BaseModel], where: str, found: str) -> DocumentError:
    return DocumentError(
        "document-not-canonical",
        f"{where}: expected the RFC 8785 bytes of a {document.__name__}, found {found}",
        hint="restore the file from a copy; memtrial writes canonical bytes only",
    )


def _problems(error: ValidationError) -> str:
    problems = [
        f"{'.'.join(str(part) for part in item['loc']) or 'document'}: {_as_found(item['msg'])}"
        for item in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    shown = "; ".join(problems[:8])
    return shown if len(problems) <= 8 else f"{shown}; and {len(problems) - 8} more"


def _as_found(told: str) -> str:
    """Returns a problem as the end of a sentence; what was found in the document keeps its capitals."""
    told = told.removeprefix("Value error, ")
    return told[:1].lower() + told[1:]
