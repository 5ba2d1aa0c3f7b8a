"""What a scenario may say of sharing the GPU, and what it is warned of."""

from pathlib import Path

import pytest

from cotenant.errors import UserError
from cotenant.scenario.load import load
from cotenant.scenario.sharing import warnings

TEXT = """\
sharing: {sharing}
device: {device}
tenants:
  tts: {{kind: speech}}
  llm: {{kind: completions{llm}}}
load:
  voices: {{tenant: tts, kind: voices}}
  decode: {{tenant: llm, kind: completions}}
stages: [{{name: both, load: [voices, decode], baseline: true}}]
"""


def written(folder: Path, *, sharing: str = "mps", device: str = "auto", llm: str = "") -> str:
    path = folder / "sharing.yaml"
    path.write_text(TEXT.format(sharing=sharing, device=device, llm=llm), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"llm": ", engine: attach, url: 'http://h:1'"}, "tenants.llm.engine (line 5): sharing: mps acts on"),
        ({"sharing": "time-slice", "llm": ", mps: {priority: 1}"}, "tenants.llm.mps (line 5): this needs"),
        ({"device": "cpu"}, "sharing (line 1): mps shares an NVIDIA GPU, and device is cpu"),
        ({"llm": ", device: cpu, mps: {priority: 1}"}, "tenants.llm.mps (line 5): MPS limits act on a GPU"),
        (
            {"llm": ", env: {CUDA_MPS_PIPE_DIRECTORY: /tmp/x}"},
            "tenants.llm.env.CUDA_MPS_PIPE_DIRECTORY (line 5): this would take the service away",
        ),
    ],
)
def test_contradictions_are_errors(tmp_path: Path, changes: dict[str, str], message: str) -> None:
    with pytest.raises(UserError) as error:
        load(written(tmp_path, **changes), ())
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("llm", "warned"),
    [
        ("", True),
        (", mps: {priority: 0}", True),
        (", mps: {thread_percentage: 100}", True),
        (", mps: {thread_percentage: 50}", False),
        (", mps: {priority: 1}", False),
        (", device: cpu", False),
    ],
)
def test_an_llm_without_a_limit_is_warned_of(tmp_path: Path, llm: str, warned: bool) -> None:
    notes = warnings(load(written(tmp_path, llm=llm), ()))
    assert [note["kind"] for note in notes] == ["mps-without-limit"] * warned
    if warned:
        assert "those of an LLM can crowd out those of tts" in notes[0]["text"]
        assert "tenants.llm.mps" in notes[0]["advice"]


def test_time_slices_need_no_limit(tmp_path: Path) -> None:
    assert warnings(load(written(tmp_path, sharing="time-slice"), ())) == []
