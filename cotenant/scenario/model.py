"""What every part of a scenario is: a frozen pydantic model, each field with a meaning."""

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """The base of all parts. A field's `description` is what `cotenant list --fields` says of it."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True)
class Unit:
    """The unit of a plain number, in the annotation of a field."""

    name: str
