"""Tokens by class and what they cost: the dated price table of a plan, usage, caps.

Money is integer micro-USD everywhere; prices are micro-USD for one million tokens. Reads and writes
nothing.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from orchestrator.model.base import Closed, Day, Document, Text

Tokens = int
Api = Literal["messages", "responses", "chat", "embeddings"]
Provider = Literal["anthropic", "openai"]
PROVIDER_OF: dict[Api, Provider] = {
    "messages": "anthropic",
    "responses": "openai",
    "chat": "openai",
    "embeddings": "openai",
}
"""Whose wire format it is, so where its calls go."""


class Usage(Closed):
    """Tokens of one call. The classes are disjoint, but `reasoning` is a part of `output`."""

    input: Tokens = Field(default=0, ge=0)
    cache_read: Tokens = Field(default=0, ge=0)
    cache_write: Tokens = Field(default=0, ge=0)
    cache_write_1h: Tokens = Field(default=0, ge=0)
    output: Tokens = Field(default=0, ge=0)
    reasoning: Tokens = Field(default=0, ge=0)

    @property
    def all_input(self) -> int:
        """Input tokens of every class."""
        return self.input + self.cache_read + self.cache_write + self.cache_write_1h

    def plus(self, other: Usage) -> Usage:
        """Returns the sum of two usages, class by class."""
        mine, theirs = self.model_dump(), other.model_dump()
        return Usage(**{name: mine[name] + theirs[name] for name in mine})


class ModelPrice(Closed):
    """Prices of one model id, in micro-USD for a million tokens of each class."""

    model: Text
    apis: tuple[Api, ...] = Field(min_length=1)
    input: int = Field(ge=0)
    cache_read: int = Field(ge=0)
    cache_write: int = Field(ge=0)
    cache_write_1h: int = Field(ge=0)
    output: int = Field(ge=0)
    max_output_tokens: int = Field(gt=0)

    @property
    def dearest_input(self) -> int:
        """The highest price that an input token can have."""
        return max(self.input, self.cache_read, self.cache_write, self.cache_write_1h)


class PriceTable(Document):
    """Prices as they were on a day, with where they were read. A model that is not here is refused."""

    dated: Day
    source: Text
    models: tuple[ModelPrice, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _unique(self) -> Self:
        names = [price.model for price in self.models]
        if len(set(names)) != len(names):
            raise ValueError("each model must have one price")
        return self

    def find(self, model: str) -> ModelPrice | None:
        """Returns the price of a model id, matched exactly; None if it has none."""
        return next((price for price in self.models if price.model == model), None)


class Caps(Closed):
    """Upper bounds of spending, the same for every arm, in micro-USD."""

    per_call_usd_micros: int = Field(ge=0)
    per_trial_usd_micros: int = Field(ge=0)
    per_condition_usd_micros: int = Field(ge=0)
    per_run_usd_micros: int = Field(ge=0)


class Quota(Closed):
    """Upper bounds of a whole run, all attempts counted, besides its money: what an approval allows."""

    agent_calls: int = Field(gt=0)
    provider_calls: int = Field(gt=0)
    input_tokens: Tokens = Field(gt=0)
    output_tokens: Tokens = Field(gt=0)
