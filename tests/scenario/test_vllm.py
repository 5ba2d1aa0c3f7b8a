"""The `vllm` block of a tenant: what it reads, what contradicts, what `auto` makes of it."""

from pathlib import Path
from typing import Any

import pytest

from cotenant.errors import UserError
from cotenant.scenario.auto import Machine, resolve
from cotenant.scenario.load import load
from cotenant.scenario.parse import HIDDEN, dump, parse, public_dump
from cotenant.scenario.schema import Scenario
from cotenant.scenario.vllm import MODEL_SHAPES, Vllm

GIB = 2**30
H200 = Machine(vllm="/usr/bin/vllm", gpu_total_bytes=140 * GIB, gpu_free_bytes=138 * GIB)


def scenario(tenant: dict[str, Any], **load_fields: Any) -> Scenario:
    decode = {"tenant": "llm", "kind": "completions", "streams": 2, "prompt": 128, **load_fields}
    return parse(
        {
            "name": "x",
            "tenants": {"llm": {"kind": "completions", **tenant}},
            "load": {"decode": decode},
            "stages": [{"name": "a", "load": ["decode"]}],
        }
    )


def launched(**block: Any) -> dict[str, Any]:
    return {"engine": "launch", "vllm": {"bin": "/v/vllm", **block}}


def block_of(found: Scenario) -> Vllm:
    block = found.tenants["llm"].vllm
    assert block is not None
    return block


def test_sizes_have_units_and_survive_the_dump() -> None:
    given = scenario(launched(kv_cache_memory_bytes="20Gi", max_model_len="32k", model="a/b"), prompt=8)
    assert (block_of(given).kv_cache_memory_bytes, block_of(given).max_model_len) == (20 * GIB, 32_000)
    assert parse(dump(given)) == given
    assert given.tenants["llm"].url is None  # a free port is taken


@pytest.mark.parametrize(
    ("tenant", "told"),
    [
        (launched(python="/v/python"), "tenants.llm.vllm.python: bin says already which vLLM is started"),
        (
            launched(gpu_memory_utilization=0.5, kv_cache_memory_bytes="1Gi"),
            "tenants.llm.vllm.gpu_memory_utilization: kv_cache_memory_bytes fixes the cache",
        ),
        (
            launched(gpu_memory_utilization=60),
            "60 is not a share; write a number above 0 and up to 1, as in 0.6",
        ),
        (
            launched(kv_cache_memory_bytes="20"),
            "20 bytes are out of range; write 1Mi to 1048576Gi, as in 20Gi",
        ),
        (
            launched(max_num_batched_tokens=64, max_num_seqs=128),
            "128 sequences do not fit into 64 batched tokens",
        ),
        (launched(model="tiny-qwen"), "there is no model 'tiny-qwen'; did you mean 'tiny-qwen3'?"),
        (
            launched(model="tiny-qwen3", load_format="safetensors"),
            "vllm.load_format: tiny-qwen3 has no weights",
        ),
        (launched(model="tiny-qwen3", skip_tokenizer_init=False), "tiny-qwen3 has no tokenizer"),
        (
            launched(model="tiny-qwen3", max_model_len="32k"),
            "vllm.max_model_len: tiny-qwen3 takes 16384 tokens",
        ),
        (launched(max_num_seq=4), "tenants.llm.vllm.max_num_seq: unknown key; did you mean 'max_num_seqs'?"),
        (
            launched(extra_args=["--max_num_seqs=4"]),
            "vllm.extra_args[0]: --max-num-seqs is written in the vllm.max_num_seqs; move it there",
        ),
        (launched(extra_args=["--port", "1"]), "--port is written in the url of the tenant"),
        (launched(extra_args=["--disable-log-stats"]), "it would take away the server's own counts"),
        (
            launched(cudagraph_capture_sizes=[1, 2], extra_args=["--enforce-eager"]),
            "vllm.cudagraph_capture_sizes: --enforce-eager captures no graphs",
        ),
        (launched(cudagraph_capture_sizes=[1, 1]), "it is empty or says a size twice"),
        ({**launched(), "command": ["vllm"]}, "tenants.llm.command: vllm builds the command"),
        ({"engine": "builtin", "vllm": {}}, "the engine builtin takes no vllm"),
        (
            {"engine": "attach", "url": "http://h:1", "vllm": {"dtype": "float16"}},
            "the engine attach takes no vllm",
        ),
        (
            {**launched(), "kind": "speech"},
            "tenants.llm.vllm: vllm is for kind: completions, and this is speech",
        ),
        (
            {"engine": "launch", "url": "http://h:1"},
            "add command: [PROGRAM, ARGUMENT, ...], or vllm: {model: NAME}",
        ),
        (
            launched(model="tiny-qwen3", max_model_len=100),
            "a prompt of 128 tokens and an output of 400 are longer",
        ),
    ],
)
def test_what_contradicts_is_told(tenant: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError) as caught:
        scenario(tenant)
    assert told in str(caught.value)


def test_prompts_are_held_against_the_shape_too() -> None:
    with pytest.raises(UserError, match=r"load.decode.prompt: a prompt of 32000 .* longer than the 16384"):
        scenario(launched(model="tiny-qwen3"), prompt="32k")
    assert scenario(launched(model="qwen3-30b-a3b-shaped"), prompt="32k")
    assert scenario(launched(model="org/unknown"), prompt="32k")


def test_auto_is_built_in_where_there_is_no_gpu_or_no_vllm() -> None:
    for kind, machine in (
        ("cpu", H200),
        ("gpu", None),
        ("gpu", Machine(gpu_total_bytes=1, gpu_free_bytes=1)),
    ):
        tenant = resolve(scenario({"vllm": {"max_num_seqs": 8}}), kind, machine=machine).tenants["llm"]  # type: ignore[arg-type]
        assert (tenant.engine, tenant.vllm) == ("builtin", None)
        assert tenant.shape == ("llm-8b" if machine is None else "tiny")


def test_auto_takes_the_largest_shape_that_fits_into_its_share_of_the_gpu() -> None:
    found = resolve(scenario({}), "gpu", machine=H200)
    assert found.tenants["llm"].engine == "launch"
    block = block_of(found)
    assert (block.bin, block.model, block.gpu_memory_utilization) == (
        "/usr/bin/vllm",
        "qwen3-30b-a3b-shaped",
        0.6,
    )
    assert resolve(found, "gpu") == found
    for total, free, model in (
        (96, 95, "qwen3-8b-shaped"),
        (80, 78, "qwen3-8b-shaped"),
        (24, 23, "qwen3-0.6b-shaped"),
    ):
        machine = Machine(vllm="vllm", gpu_total_bytes=total * GIB, gpu_free_bytes=free * GIB)
        assert block_of(resolve(scenario({}), "gpu", machine=machine)).model == model
    full = Machine(
        vllm="vllm", gpu_total_bytes=140 * GIB, gpu_free_bytes=70 * GIB
    )  # less than its share is free
    assert resolve(scenario({}), "gpu", machine=full).tenants["llm"].engine == "builtin"


def test_what_the_user_wrote_stands() -> None:
    mine = {"vllm": {"python": "/v/python", "kv_cache_memory_bytes": "8Gi", "max_num_seqs": 4}}
    block = block_of(resolve(scenario(mine), "gpu", machine=H200))
    assert (block.bin, block.python, block.gpu_memory_utilization) == (None, "/v/python", None)
    assert (block.model, block.max_num_seqs) == ("qwen3-30b-a3b-shaped", 4)
    own = {"vllm": {"python": "/v/python", "model": "/models/mine"}}  # its size is not known, nor asked
    assert block_of(resolve(scenario(own), "gpu")).model == "/models/mine"
    bare = block_of(resolve(scenario({"engine": "launch", "vllm": {"bin": "/v/vllm"}}), "cpu"))
    assert (bare.model, bare.kv_cache_memory_bytes) == ("tiny-qwen3", GIB)


def test_every_shape_is_found_where_it_alone_fits() -> None:
    for name, shape in MODEL_SHAPES.items():
        room = shape.weights_bytes + 70_000 * shape.kv_bytes_per_token + 3 * GIB
        machine = Machine(vllm="vllm", gpu_total_bytes=int(room / 0.6) + 2, gpu_free_bytes=room + 2)
        assert block_of(resolve(scenario({}), "gpu", machine=machine)).model == name


def test_paths_are_relative_to_the_file_that_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    text = (
        "name: x\ntenants:\n  llm: {kind: completions, engine: launch, vllm: {python: ../env/bin/python, "
        "model: ./m}}\n"
        "load: {d: {tenant: llm, kind: completions}}\nstages: [{name: a, load: [d]}]\n"
    )
    (tmp_path / "sub" / "x.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    block = block_of(load("sub/x.yaml"))
    assert (block.python, block.model) == (
        str(tmp_path / "sub/../env/bin/python"),
        str(tmp_path / "sub" / "m"),
    )
    assert block_of(load("sub/x.yaml", ["tenants.llm.vllm.model=./n"])).model == str(tmp_path / "n")
    found = block_of(load("sub/x.yaml", ["tenants.llm.vllm.model=org/n", "tenants.llm.vllm.python=python3"]))
    assert (found.model, found.python) == ("org/n", "python3")


def test_no_secret_of_its_arguments_is_written_to_disk() -> None:
    found = scenario(
        launched(model="a/b", extra_args=["--api-key", "s3cret", "--hf-token=s3cret", "--seed", "3"])
    )
    shown = public_dump(found)["tenants"]["llm"]["vllm"]["extra_args"]
    assert shown == ["--api-key", HIDDEN, f"--hf-token={HIDDEN}", "--seed", "3"]
