"""The plain form of a scenario: it reads back as itself, hides secrets, and no text can break the reader."""

import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.errors import UserError
from cotenant.scenario.auto import resolve
from cotenant.scenario.load import load
from cotenant.scenario.parse import HIDDEN, dump, hide_options, parse, public_dump
from cotenant.scenario.yaml_text import parse_yaml

names = st.text(alphabet=string.ascii_letters + string.digits + "._-", min_size=1, max_size=64).filter(
    lambda n: n != "warm"
)
durations = st.integers(min_value=1, max_value=10**15).map(lambda value_ns: f"{value_ns}ns")
rates = (
    st.floats(min_value=1e-4, max_value=1e6)
    .map(lambda rate: f"{rate:.12f}/s")
    .filter(lambda text: not text.startswith("0.00000"))
)
or_auto = st.just("auto")
voices = st.fixed_dictionaries(
    {"kind": st.just("voices"), "tenant": st.just("tts")},
    optional={
        "mode": st.sampled_from(["turns", "open", "closed"]),
        "listeners": st.integers(1, 10_000) | or_auto,
        "every": durations | or_auto,
        "pause": durations,
        "text": st.just("builtin") | st.lists(st.text(min_size=1).filter(str.strip), min_size=1, max_size=3),
    },
)
completions = st.fixed_dictionaries(
    {"kind": st.just("completions"), "tenant": st.just("llm")},
    optional={
        "streams": st.integers(1, 64) | or_auto,
        "prompt": st.sampled_from(["4k", "1Ki", 7, "auto"]),
        "output": st.just("1k"),
    },
) | st.fixed_dictionaries(
    {"kind": st.just("completions"), "tenant": st.just("llm"), "mode": st.just("rate"), "rate": rates}
)


@st.composite
def scenarios(draw: st.DrawFn) -> dict[str, Any]:
    loads = draw(
        st.dictionaries(
            names.filter(lambda name: "." not in name), voices | completions, min_size=1, max_size=4
        )
    )
    stage_names = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    return {
        "name": draw(names),
        "about": draw(st.text(max_size=20)),
        "lookahead": draw(durations),
        "tenants": {
            "tts": {
                "kind": "speech",
                "engine": "attach",
                "url": "http://h:1",
                "extra": {"speed": draw(st.floats(0, 2))},
            },
            "llm": {"kind": "completions", "threads": draw(st.integers(1, 64))},
        },
        "load": loads,
        "stages": [{"name": name, "load": draw(st.permutations(sorted(loads)))} for name in stage_names],
        "timing": {"measure": draw(durations | or_auto), "settle": draw(durations)},
    }


@settings(max_examples=60, deadline=None)
@given(scenarios())
def test_a_scenario_survives_its_dump(data: dict[str, Any]) -> None:
    scenario = parse(data)
    assert parse(dump(scenario)) == scenario
    resolved = resolve(scenario, "cpu")
    assert parse(dump(resolved)) == resolved
    assert resolve(resolved, "gpu") == resolved


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("voices"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=8) | st.just("kind"), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            key: anything
            for key in ("name", "tenants", "load", "stages", "gate", "timing", "player", "decision", "device")
        },
    )
)
def test_no_data_raises_anything_but_a_user_error(data: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="the scenario has"):
        parse(data)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=60) | st.text(alphabet="{}[]:,&*!|>-#?%@ \n\t'\"ab1", max_size=60))
def test_no_text_breaks_the_yaml_reader(text: str) -> None:
    parse_yaml(text)


@given(
    st.dictionaries(
        st.text(alphabet=string.ascii_letters, min_size=1),
        st.integers() | st.lists(st.integers(), max_size=3),
        max_size=5,
    )
)
def test_every_value_knows_its_line(data: dict[str, Any]) -> None:
    text = "".join(f'"{key}": {value}\n' for key, value in data.items())
    document = parse_yaml(text)
    assert not document.problems
    assert (document.data or {}) == data
    for number, (key, value) in enumerate(data.items(), start=1):
        assert document.places[(key,)] == f"line {number}"
        for index in range(len(value) if isinstance(value, list) else 0):
            assert document.places[(key, index)] == f"line {number}"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("'12'", "12"),
        ("!!str 12", "12"),
        ("2024-01-01", "2024-01-01"),
        ("~", None),
        ("1.5", 1.5),
        ("true", True),
    ],
)
def test_scalars_are_plain_values(text: str, value: object) -> None:
    assert parse_yaml(f"a: {text}").data == {"a": value}


def test_what_is_written_to_disk_holds_no_secret() -> None:
    extra = "{api_key: s3cret, deep: {password: s3cret, list: [{auth_token: s3cret}]}, max_tokens: 5}"
    command = "[vllm, serve, --api-key, s3cret, --hf-token=s3cret, --port, '8000', --tokenizer, name]"
    scenario = load(
        "llm-decode",
        [
            "tenants.llm.engine=launch",
            "tenants.llm.url=http://127.0.0.1:8000",
            f"tenants.llm.command={command}",
            f"tenants.llm.extra={extra}",
            "tenants.llm.env={HF_TOKEN: s3cret, OMP_NUM_THREADS: '2'}",
        ],
    )
    public = public_dump(scenario)
    assert "s3cret" not in str(public)
    llm = public["tenants"]["llm"]
    assert llm["command"] == [
        "vllm", "serve", "--api-key", HIDDEN, f"--hf-token={HIDDEN}", "--port", "8000", "--tokenizer", "name",
    ]  # fmt: skip
    assert llm["env"] == {"HF_TOKEN": HIDDEN, "OMP_NUM_THREADS": "2"}
    assert llm["extra"]["max_tokens"] == 5
    assert parse(public).tenants.keys() == scenario.tenants.keys()
    assert "s3cret" in str(dump(scenario))


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (["sh", "-c", "serve --api-key s3cret"], ["sh", "-c", HIDDEN]),
        (["a", "-H", "Authorization: Bearer s3cret", "b"], ["a", "-H", HIDDEN, HIDDEN]),
        (["a", "--api-key", "-s3cret", "b"], ["a", "--api-key", HIDDEN, "b"]),
        (["a", "--auth", "--api-key", "s3cret", "b"], ["a", "--auth", "--api-key", HIDDEN, "b"]),
        (["a", "-ks3cret", "-k", "s3cret", "b"], ["a", f"-k{HIDDEN}", "-k", HIDDEN, "b"]),
        (["env", "PASS=s3cret", "DB_PWD=s3cret", "b"], ["env", f"PASS={HIDDEN}", f"DB_PWD={HIDDEN}", "b"]),
        (["--header=X-Auth: s3cret", "b=1"], [f"--header={HIDDEN}", "b=1"]),
        (["a", "http://me:s3cret@host/"], ["a", HIDDEN]),
        (
            ["vllm", "--max-tokens", "5", "--tokenizer", "b"],
            ["vllm", "--max-tokens", "5", "--tokenizer", "b"],
        ),
    ],
)
def test_secrets_in_arguments(command: list[str], shown: list[str]) -> None:
    assert hide_options(command) == shown


def test_secrets_in_addresses_and_variables() -> None:
    scenario = load(
        "llm-decode",
        [
            "tenants.llm.engine=attach",
            "tenants.llm.url=http://127.0.0.1:8000/x?api_key=s3cret&n=1;pwd=s3cret",
            "tenants.tts.env={PASS: s3cret, DB_PWD: s3cret, OTHER: '1'}",
        ],
    )
    public = public_dump(scenario)
    assert "s3cret" not in str(public)
    assert public["tenants"]["llm"]["url"] == f"http://127.0.0.1:8000/x?api_key={HIDDEN}&n=1;pwd={HIDDEN}"
    assert public["tenants"]["tts"]["env"]["OTHER"] == "1"
    parse(public)


def test_the_data_folder_is_found_and_others_are_not(tmp_path: Path) -> None:
    from cotenant.resources import data_dir

    assert (data_dir("scenarios") / "all-together.yaml").is_file()
    with pytest.raises(KeyError):
        data_dir("../etc")


def test_the_profiles_that_a_scenario_may_name_are_those_there_are() -> None:
    from cotenant.scenario.schema import DEFAULT_GATES, GATE_PROFILES
    from cotenant.verdict.profiles import PROFILES

    assert set(GATE_PROFILES) == set(PROFILES)
    assert set(DEFAULT_GATES) <= set(PROFILES)


def test_the_shapes_that_a_scenario_may_name_are_those_there_are() -> None:
    from cotenant.scenario.schema import SHAPES
    from cotenant.tenants.builtin.shapes import registry

    built_in = {"speech": registry.SPEECH, "face": registry.FACE, "completions": registry.COMPLETIONS}
    assert {kind: set(names) for kind, names in SHAPES.items()} == {k: set(v) for k, v in built_in.items()}


def test_a_gpu_gets_the_sizes_of_real_models_and_a_tenant_on_the_cpu_tiny_ones() -> None:
    scenario = load("all-together", ["tenants.head.device=cpu"])
    shapes = {name: tenant.shape for name, tenant in resolve(scenario, "gpu").tenants.items()}
    assert shapes == {"tts": "qwen3-tts-0.6b", "head": "tiny", "llm": "llm-8b"}
    assert {tenant.shape for tenant in resolve(scenario, "cpu").tenants.values()} == {"tiny"}


@pytest.mark.parametrize("limit", [0, 0.95, "500ms", "-100ms", "95 %", "20/s", "32k", "1e-3"])
def test_a_limit_may_have_a_unit(limit: float | str) -> None:
    data = dump(load("tts-alone"))
    data["gate"] = [{"metric": "speech.x", "op": "<=", "limit": limit}, f"speech.x <= {limit}"]
    scenario = parse(data)
    assert parse(dump(scenario)) == scenario
