"""Values that no field takes, wherever they stand: told in a sentence that can be written."""

from difflib import get_close_matches
from pathlib import Path
from unittest.mock import patch

import pytest

from cotenant.errors import UserError
from cotenant.scenario import nearest
from cotenant.scenario.auto import DeviceKind, resolve
from cotenant.scenario.load import load, packaged_names, parse
from cotenant.scenario.schema import CONTEXT_TOKENS, SHAPES, Completions
from cotenant.tenants.builtin.shapes import registry
from tests.scenario.test_wrong import GOOD, message_of


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "name: mine",
            'name: mine\nabout: "\\ud800"',
            "about (line 2): '\\ud800' has half of a surrogate pair",
        ),
        ("engine: builtin}", 'engine: builtin, model: "a\\udfff"}', "tenants.tts.model (line 4)"),
        ("engine: builtin}", 'engine: builtin, voice: "\\ud800"}', "half of a surrogate pair"),
        ("engine: builtin}", 'engine: builtin, extra: {a: [{b: "\\ud800"}]}}', "tenants.tts.extra.a[0].b"),
        (
            "engine: builtin}",
            'engine: builtin, extra: {"\\ud800": 1}}',
            "the key has half of a surrogate pair",
        ),
        ("engine: builtin}", "engine: builtin, extra: {a: .nan}}", "nan is no number of JSON"),
        ("engine: builtin}", 'engine: launch, url: "http://h:1", command: ["a\\0b"]}', "has a NUL character"),
        ("name: mine", 'extends: "a\\0b.yaml"', "is no name of a file"),
        ("name: mine", 'extends: "\\ud800.yaml"', "is no name of a file"),
        ("name: mine", '"\\ud800": 1', "the key has half of a surrogate pair"),
        ("every: 4s", "every: .nan", "nan is no number; write a number and a unit"),
        ("lookahead: 400ms", "lookahead: .inf", "inf is no number"),
        ("lookahead: 400ms", "lookahead: 0x" + "f" * 5000, "cannot be read as a value"),
        ("gate: [voice]", "gate: ['speech.ttfa_ms.p95 <= \uff15\uff10ms']", "is not a limit"),
        ("gate: [voice]", "gate: [{metric: speech.ttfa_ms.p95, op: <=, limit: \uff15}]", "is not a limit"),
        ("decode:", "de.code:", "'de.code' has a dot, which separates the parts of a gate's metric"),
        ("prompt: 128", "prompt: 8305", "8305 tokens and an output of 400 are longer than the 8704"),
    ],
)
def test_the_sentence(old: str, new: str, told: str, tmp_path: Path) -> None:
    text = GOOD.replace("completions, engine: builtin}", "completions, engine: builtin, shape: tiny}")
    message = message_of(text.replace(old, new, 1), tmp_path)
    assert told in message
    message.encode()


@pytest.mark.parametrize("path", ["/a b", "/\u00e9", "/x\\r\\nX: y", "/\\ud800"])
def test_an_address_is_of_ascii_without_spaces(path: str, tmp_path: Path) -> None:
    text = GOOD.replace("speech, engine: builtin}", f'speech, engine: attach, url: "http://h:1{path}"}}')
    assert "has a character that no address may have" in message_of(text, tmp_path)


def test_contexts_are_those_of_the_built_in_shapes() -> None:
    assert {name: sizes.context for name, sizes in registry.COMPLETIONS.items()} == CONTEXT_TOKENS
    assert tuple(CONTEXT_TOKENS) == SHAPES["completions"]


@pytest.mark.parametrize("name", packaged_names())
@pytest.mark.parametrize("device_kind", ["cpu", "gpu"])
def test_what_auto_chooses_fits(name: str, device_kind: DeviceKind) -> None:
    scenario = resolve(load(name), device_kind)
    for item in scenario.load.values():
        if isinstance(item, Completions):
            assert isinstance(item.prompt, int)
            tenant = scenario.tenants[item.tenant]
            limit = tenant.vllm.max_model_len if tenant.vllm else CONTEXT_TOKENS[tenant.shape]
            assert limit is not None
            assert item.prompt + item.output <= limit


def test_what_auto_chooses_does_not_fit_a_smaller_shape() -> None:
    small = load("llm-long-prefill", ["tenants.llm.engine=builtin", "tenants.llm.shape=tiny"])
    resolve(small, "cpu")
    with pytest.raises(UserError, match="longer than the 8704"):
        resolve(small, "gpu")


def test_few_suggestions_are_searched_and_few_errors_listed() -> None:
    data = {f"lookahed{n}": 1 for n in range(5_000)}
    with patch.object(nearest, "get_close_matches", wraps=get_close_matches) as search:
        with pytest.raises(UserError, match=r"has 500[0-9] errors") as caught:
            parse(data)
        assert search.call_count <= 20
    lines = str(caught.value).splitlines()
    assert len(lines) < 300
    assert "did you mean 'lookahead'?" in "\n".join(lines[:30])
    assert lines[-1].strip().startswith("and ")
