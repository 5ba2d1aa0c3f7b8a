"""Prompts that are new to the server, as token ids or as words; the dialect that an LLM tenant speaks."""

import hashlib
from typing import Final

import numpy as np

from cotenant.load.desk import Desk
from cotenant.load.settings import CompletionsLoad, Tenant
from cotenant.wire.dialect import CHAT, Dialect

# Ids that every tokenizer of the usual sizes has, past the special ones at its start.
FIRST_TOKEN_ID: Final = 100
LAST_TOKEN_ID: Final = 4000  # exclusive
# Short English words, most of which are one token with the blank before them.
_WORDS_TEXT: Final = """
the and for you are not with this but from they will what when your one all out can had her was his
how who did get has him its may new now old see two way day use man she boy say each tell set air
well such here take why help put year turn read hand high home kind life line long look love make
more most move much must name near need next once only open over part play same seem show side some
soon stop sure talk than that them then time told too town tree true walk want warm wash wind wish
word work back ball base bear been best bird blue boat body book both call came care city cold come
cook cost dark deep door down draw drop easy even ever face fact fall farm fast feel feet felt find
fire fish five food foot form four free full game gave girl give glad goes gold gone good grew half
hard hear heat held hill hold hope hour idea just keep knew know land last late lead left less list
live lost main many mark mean meet mile milk mind moon note noun page pair past path pick poor pull
race rain rest rich ride ring rise road rock roll room rule safe sail salt sand save seat seed self
sell send ship shop size skin slow snow song step sun
"""
WORDS: Final = tuple(_WORDS_TEXT.split())


def prompt_ids(key: str, tokens: int) -> list[int]:
    """A prompt of exactly so many token ids, seeded by `key`: no two keys have a prefix in common."""
    ids: list[int] = _random(key).integers(FIRST_TOKEN_ID, LAST_TOKEN_ID, tokens).tolist()
    return ids


def prompt_text(key: str, words: int) -> str:
    """A prompt of so many words, seeded by `key`."""
    return " ".join(WORDS[i] for i in _random(key).integers(0, len(WORDS), words).tolist())


def _random(key: str) -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(hashlib.sha256(key.encode()).digest()))


def dialect_of(desk: Desk, tenant: Tenant) -> Dialect:
    """What the tenant was found to accept; before that, what its protocol and its address say."""
    known = desk.dialects.get(tenant.name)
    if known is not None:
        return known
    return CHAT if tenant.protocol == "chat" or tenant.url(0, "").endswith("/chat/completions") else Dialect()


def may_chat(tenant: Tenant) -> bool:
    """Whether a server without completions may be asked for a chat: a path of its own serves one of them."""
    return tenant.protocol == "openai" and not tenant.url(0, "").endswith("/completions")


def words_of(desk: Desk, load: CompletionsLoad) -> int:
    """How many words make the prompt of a load; as many as tokens are asked for until that was measured."""
    return desk.words.get(load.name, load.prompt)


def measure_words(desk: Desk, load: CompletionsLoad, tokens: int | None) -> None:
    """Corrects that by how many tokens the server found in the words that it got."""
    if tokens:
        desk.words[load.name] = max(1, round(words_of(desk, load) * load.prompt / tokens))
