"""Scenario files: found, extended, overridden, resolved, written back."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cotenant.errors import UserError
from cotenant.scenario import auto
from cotenant.scenario.load import dump, find, load, packaged_names, parse
from cotenant.scenario.schema import Completions, Faces, Gate, Scenario, Voices
from cotenant.scenario.values import settled

WriteFile = Callable[..., Path]

MINIMAL = """\
name: mine
tenants:
  tts: {kind: speech, engine: builtin}
load:
  voices: {tenant: tts, kind: voices}
stages:
  - {name: alone, load: [voices], baseline: true}
"""


@pytest.fixture
def write(tmp_path: Path) -> WriteFile:
    def write_file(text: str, name: str = "mine.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write_file


def test_the_packaged_scenarios_are_the_ladder_and_its_steps() -> None:
    assert packaged_names() == [
        "all-together", "ditto-online", "faster-qwen3-tts", "llm-decode", "llm-long-prefill", "one-gpu-96gb",
        "talking-head", "tts-alone", "voice-and-llm", "voices-apart",
    ]  # fmt: skip
    ladder = [stage.name for stage in load("all-together").stages]
    assert ladder == ["tts-alone", "talking-head", "llm-decode", "llm-long-prefill", "all-together"]
    for name in ("talking-head", "llm-decode", "llm-long-prefill"):
        scenario = load(name)
        assert scenario.name == name
        assert scenario.about
        assert [(stage.name, stage.baseline) for stage in scenario.stages] == [
            ("tts-alone", True),
            (name, False),
        ]


@pytest.mark.parametrize("name", ["talking-head", "llm-decode", "llm-long-prefill", "tts-alone"])
def test_a_step_is_what_the_ladder_runs_under_that_name(name: str) -> None:
    step, ladder = load(name), load("all-together")
    assert {load_name: ladder.load[load_name] for load_name in step.load} == step.load
    assert {tenant: ladder.tenants[tenant] for tenant in step.tenants} == step.tenants
    assert all(stage in ladder.stages for stage in step.stages)
    assert (step.timing, step.player, step.gate) == (ladder.timing, ladder.player, ladder.gate)


def test_the_ladder_without_a_head_is_the_ladder_without_its_faces() -> None:
    without, ladder = load("voice-and-llm"), load("all-together")
    assert without.tenants == {name: ladder.tenants[name] for name in ("tts", "llm")}
    assert without.load == {name: ladder.load[name] for name in ("voices", "decode", "prefill")}
    # What is gated by stage, `all-together` above all, is found in both.
    *steps, last = without.stages
    assert steps == [stage for stage in ladder.stages[:-1] if "faces" not in stage.load]
    assert (last.name, last.load) == ("all-together", ["voices", "decode", "prefill"])
    assert (without.timing, without.player, without.gate) == (ladder.timing, ladder.player, ladder.gate)


@pytest.mark.parametrize("name", packaged_names())
def test_a_packaged_scenario_survives_its_dump(name: str) -> None:
    scenario = load(name)
    assert parse(dump(scenario)) == scenario


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
@pytest.mark.parametrize("name", packaged_names())
def test_a_resolved_packaged_scenario_says_auto_nowhere(name: str, kind: auto.DeviceKind) -> None:
    resolved = auto.resolve(load(name), kind)
    plain = dump(resolved)
    for tenant in plain["tenants"].values():
        if tenant["engine"] != "builtin":
            # No shape is chosen for what is not built in, and how it speaks is asked of it later.
            tenant.pop("shape")
            tenant.pop("protocol")
    assert "auto" not in str(plain)
    assert parse(dump(resolved)) == resolved
    assert auto.resolve(resolved, kind) == resolved


def test_auto_on_a_cpu_is_the_documented_table() -> None:
    resolved = auto.resolve(load("all-together"), "cpu")
    voices, decode, prefill = (resolved.load[name] for name in ("voices", "decode", "prefill"))
    assert isinstance(voices, Voices)
    assert isinstance(decode, Completions)
    assert isinstance(prefill, Completions)
    assert (voices.listeners, voices.every_ns) == (2, 4 * 10**9)
    assert (decode.streams, prefill.prompt) == (4, 4_000)
    timing = resolved.timing
    assert (timing.measure_ns, timing.solo_ns, timing.extend_ns) == (15 * 10**9, 5 * 10**9, 0)
    assert resolved.decision == "point"
    assert {tenant.shape for tenant in resolved.tenants.values()} == {"tiny"}
    assert {tenant.device for tenant in resolved.tenants.values()} == {"cpu"}


def test_auto_on_a_gpu_is_the_documented_table() -> None:
    resolved = auto.resolve(load("all-together"), "gpu")
    voices, prefill = resolved.load["voices"], resolved.load["prefill"]
    assert isinstance(voices, Voices)
    assert isinstance(prefill, Completions)
    assert (voices.listeners, voices.every_ns, prefill.prompt) == (8, 6 * 10**9, 32_000)
    timing = resolved.timing
    assert (timing.measure_ns, timing.solo_ns, timing.extend_ns) == (60 * 10**9, 10 * 10**9, 180 * 10**9)
    assert resolved.decision == "interval"


def test_what_the_scenario_says_is_stronger_than_auto() -> None:
    scenario = load(
        "all-together", ["load.voices.listeners=5", "timing.measure=90s", "tenants.llm.device=cuda:1"]
    )
    resolved = auto.resolve(scenario, "gpu")
    voices = resolved.load["voices"]
    assert isinstance(voices, Voices)
    assert voices.listeners == 5
    assert resolved.timing.measure_ns == 90 * 10**9
    assert (resolved.tenants["llm"].device, resolved.tenants["tts"].device) == ("cuda:1", "cuda:0")


def test_quick_halves_the_measuring_and_decides_by_points() -> None:
    scenario = load("tts-alone", ["timing.measure=40s", "decision=interval"])
    quick = auto.resolve(scenario, "gpu", quick=True)
    assert (quick.timing.measure_ns, quick.decision) == (20 * 10**9, "point")
    assert quick.timing.solo_ns == auto.resolve(scenario, "gpu").timing.solo_ns


def test_more_faces_than_auto_gives_voices_is_told_when_it_is_known() -> None:
    scenario = load("talking-head", ["load.faces.listeners=3"])
    assert auto.resolve(scenario, "gpu").load["faces"] == scenario.load["faces"]
    with pytest.raises(UserError, match=r"load\.faces\.listeners: 3 faces cannot follow 2 listeners"):
        auto.resolve(scenario, "cpu")


def test_a_number_that_is_still_auto_is_refused() -> None:
    assert settled(4) == 4
    with pytest.raises(ValueError, match="resolve it first"):
        settled("auto")


def test_a_file_of_the_users_own_is_a_path(
    write: WriteFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(MINIMAL, "tts-alone.yaml")
    assert load(str(path)).name == "mine"
    monkeypatch.chdir(tmp_path)
    assert find("tts-alone") != Path("tts-alone.yaml")
    assert load("./tts-alone.yaml").name == "mine"
    write(MINIMAL, "bare")
    assert load("bare").name == "mine"


def test_a_file_without_a_name_is_called_after_itself(write: WriteFile) -> None:
    assert load(str(write(MINIMAL.replace("name: mine\n", ""), "office.yaml"))).name == "office"


def test_extends_merges_mappings_replaces_lists_and_null_removes(write: WriteFile) -> None:
    text = """\
extends: all-together
lookahead: 250ms
tenants:
  tts: {engine: attach, url: "http://127.0.0.1:8091", voice: anna}
  llm:
load:
  voices: {listeners: 4}
  decode: null
  prefill: null
stages:
  - {name: both, load: [voices, faces]}
"""
    scenario = load(str(write(text, "office.yaml")))
    assert (scenario.name, scenario.about, scenario.lookahead_ns) == ("office", "", 250_000_000)
    assert list(scenario.tenants) == ["tts", "head"]
    assert scenario.tenants["tts"].url == "http://127.0.0.1:8091"
    assert list(scenario.load) == ["voices", "faces"]
    voices, faces = scenario.load["voices"], scenario.load["faces"]
    assert isinstance(voices, Voices)
    assert isinstance(faces, Faces)
    assert (voices.listeners, voices.pause_ns, faces.follows) == (4, 500_000_000, "voices")
    assert [stage.name for stage in scenario.stages] == ["both"]


def test_extends_goes_through_files_relative_to_each_one(write: WriteFile, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    write("extends: tts-alone\nseed: 1\nlookahead: 1s\n", "base.yaml")
    write("extends: ../base.yaml\nseed: 2\n", "deep/middle.yaml")
    scenario = load(str(write("extends: deep/middle.yaml\n", "top.yaml")))
    assert (scenario.name, scenario.seed, scenario.lookahead_ns) == ("top", 2, 10**9)


@pytest.mark.parametrize(
    ("override", "read", "value"),
    [
        ("lookahead=1200ms", lambda s: s.lookahead_ns, 1_200_000_000),
        ("load.voices.listeners=4", lambda s: s.load["voices"].listeners, 4),
        ("stages[1].name=beside", lambda s: s.stages[1].name, "beside"),
        ("stages.1.name=beside", lambda s: s.stages[1].name, "beside"),
        ("stages[4].load[3]=null", lambda s: s.stages[4].load, ["voices", "faces", "decode"]),
        ("gate=[voice, 'speech.rtf.p95 <= 0.8']", lambda s: s.gate, ["voice", "speech.rtf.p95 <= 0.8"]),
        ("stages[5]={name: more, load: [voices]}", lambda s: s.stages[5].name, "more"),
        ("tenants.llm.extra.temperature=0.5", lambda s: s.tenants["llm"].extra, {"temperature": 0.5}),
        ("about=", lambda s: s.about, ""),
        ("about=a=b", lambda s: s.about, "a=b"),
    ],
)
def test_set_changes_one_value(override: str, read: Callable[[Scenario], object], value: object) -> None:
    assert read(load("all-together", [override])) == value


def test_later_overrides_win() -> None:
    assert load("tts-alone", ["seed=1", "seed=2"]).seed == 2


def test_the_sentences_of_a_text_file_are_recorded(write: WriteFile, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    write("One two.\n\n  Three four.  \n", "deep/lines.txt")
    text = MINIMAL.replace("kind: voices}", "kind: voices, text: lines.txt}")
    write(text, "deep/base.yaml")
    voices = load(str(write("extends: deep/base.yaml\n", "top.yaml"))).load["voices"]
    assert isinstance(voices, Voices)
    assert voices.text == ["One two.", "Three four."]


def test_the_reader_can_be_given() -> None:
    files = {Path("a.yaml"): MINIMAL.encode(), Path("b.yaml"): b"\xef\xbb\xbfextends: a.yaml\nseed: 3\n"}
    assert load("b.yaml", read=files.__getitem__).seed == 3


def test_gates_may_be_names_limits_or_mappings() -> None:
    whole = "{metric: face.fps_p5, op: '>=', limit: 24, stages: [tts-alone]}"
    gates = load("tts-alone", [f"gate=[voice, 'speech.ttfa_ms.p95 <= 500ms', {whole}]"]).gate
    assert gates[:2] == ["voice", "speech.ttfa_ms.p95 <= 500ms"]
    assert isinstance(gates[2], Gate)
    assert (gates[2].limit, gates[2].level) == (24.0, "fail")


def test_voices_apart_is_the_ladder_with_a_server_for_each_voice() -> None:
    apart = load("voices-apart")
    assert [stage.name for stage in apart.stages] == [stage.name for stage in load("all-together").stages]
    voices = apart.load["voices"]
    assert isinstance(voices, Voices)
    assert voices.mode == "closed"
    assert apart.tenants["tts"].replicas == voices.listeners == 9


def test_one_gpu_is_the_ladder_with_services_of_ones_own() -> None:
    own = auto.resolve(load("one-gpu-96gb"), "gpu")
    assert [stage.name for stage in own.stages] == [stage.name for stage in load("all-together").stages]
    assert {name: tenant.engine for name, tenant in own.tenants.items()} == {
        "tts": "attach", "head": "attach", "llm": "launch",
    }  # fmt: skip
    vllm = own.tenants["llm"].vllm
    assert vllm is not None
    assert (vllm.gpu_memory_utilization, vllm.max_model_len, vllm.max_num_seqs) == (0.78, 65_536, 4)
    assert vllm.extra_args == ["--kv-cache-dtype", "fp8"]
    streams = [load.streams for load in own.load.values() if isinstance(load, Completions)]
    assert streams == [2, 2]
