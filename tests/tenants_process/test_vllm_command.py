"""The command that a `vllm` block becomes, the options that an installation knows, the folders of models."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from cotenant.errors import CouldNotRun
from cotenant.resources import data_dir
from cotenant.scenario.schema import Tenant
from cotenant.scenario.vllm import FLAGS, MODEL_SHAPES, Vllm
from cotenant.tenants import launch, vllm, vllm_command, vllm_flags

KNOWN = {*FLAGS.values(), "--enable-per-request-metrics", "--model", "--host", "--port", "--enforce-eager"}


def build(known: set[str] = KNOWN, model: str = "tiny-qwen3", **fields: Any) -> vllm_command.Command:
    block = Vllm.model_validate({"python": "/v/bin/python", "model": model, **fields})
    files = vllm.model_files("llm", model)
    return vllm_command.build(
        "llm", block, files, known=known, served_name="m", host="127.0.0.1", port=8000
    )  # fmt: skip


def test_a_shape_without_weights() -> None:
    command = build(
        gpu_memory_utilization=0.6, cudagraph_capture_sizes=[1, 2, 4], extra_args=["--enforce-eager"]
    )
    assert list(command.argv) == [
        "/v/bin/python", "-m", "vllm.entrypoints.openai.api_server",
        "--model", str(data_dir("fixtures") / "models" / "tiny-qwen3"), "--host", "127.0.0.1",
        "--port", "8000",
        "--served-model-name", "m", "--load-format", "dummy", "--skip-tokenizer-init",
        "--gpu-memory-utilization", "0.6", "--cudagraph-capture-sizes", "1", "2", "4",
        "--enable-per-request-metrics", "--enforce-eager",
    ]  # fmt: skip
    assert command.dummy
    assert not command.notes


def test_a_command_of_its_own_is_called_to_serve() -> None:
    command = build(python=None, bin="/v/bin/vllm")
    assert command.argv[:2] == ["/v/bin/vllm", "serve"]
    assert command.argv[2] == str(data_dir("fixtures") / "models" / "tiny-qwen3")
    assert "--model" not in command.argv


def test_a_fixed_cache_does_not_wait_for_most_of_the_memory_to_be_free() -> None:
    argv = build(kv_cache_memory_bytes="20Gi").argv
    assert argv[argv.index("--kv-cache-memory-bytes") + 1] == str(20 * 2**30)
    assert argv[argv.index("--gpu-memory-utilization") + 1] == "0.05"


def test_a_model_with_weights_and_a_tokenizer_is_loaded(tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (tmp_path / name).touch()
    command = build(model=str(tmp_path))
    assert not {"--load-format", "--skip-tokenizer-init"} & set(command.argv)
    assert not command.dummy
    assert build(model=str(tmp_path), load_format="dummy").dummy
    (tmp_path / "tokenizer.json").unlink()
    assert "--skip-tokenizer-init" in build(model=str(tmp_path)).argv
    named = build(model="Qwen/Qwen3-0.6B")
    assert not {"--load-format", "--skip-tokenizer-init"} & set(named.argv)
    assert named.argv[4] == "Qwen/Qwen3-0.6B"


def test_what_the_version_does_not_know() -> None:
    old = KNOWN - {"--enable-per-request-metrics", "--kv-cache-memory-bytes"}
    command = build(old)
    assert "--enable-per-request-metrics" not in command.argv
    assert "has no --enable-per-request-metrics" in command.notes[0]
    with pytest.raises(
        CouldNotRun, match=r"llm: .*--kv-cache-memory-bytes \(tenants.llm.vllm.kv_cache_memory"
    ):
        build(old, kv_cache_memory_bytes="1Gi")
    with pytest.raises(
        CouldNotRun, match=r"--enforce-eagre \(.*extra_args\); remove it, or did .*--enforce-eager"
    ):
        build(extra_args=["--enforce_eagre", "3"])
    assert (
        "--no-enable-per-request-metrics"
        in build(
            KNOWN | {"--no-enable-per-request-metrics"}, extra_args=["--no-enable-per-request-metrics"]
        ).argv
    )
    assert (
        "--enable-per-request-metrics"
        not in build(
            KNOWN | {"--no-enable-per-request-metrics"}, extra_args=["--no-enable-per-request-metrics"]
        ).argv
    )


def test_folders_that_are_no_models(tmp_path: Path) -> None:
    with pytest.raises(
        CouldNotRun, match=r"llm: the model /no/such .*is no folder; give one, or a name: tiny"
    ):
        vllm.model_files("llm", "/no/such")
    with pytest.raises(CouldNotRun, match=r"has no config.json"):
        vllm.model_files("llm", str(tmp_path))


def ask(*prefix: str) -> frozenset[str]:
    return asyncio.run(vllm_flags.known_options("llm", list(prefix), {}))


def test_an_installation_is_asked_once(tmp_path: Path) -> None:
    count = tmp_path / "count"
    script = tmp_path / "vllm"
    script.write_text(
        f"#!{sys.executable}\nimport sys\nopen({str(count)!r}, 'a').write('x')\n"
        "assert sys.argv[1:] == ['serve', '--help=all']\n"
        "print('usage: [--a-b X | --no-a-b]\\n  --max-num-seqs N, -x N  text')\n"
    )
    script.chmod(0o755)
    found = [ask(str(script), "serve") for _ in range(2)]
    assert found[0] == found[1] == {"--a-b", "--no-a-b", "--max-num-seqs"}
    assert count.read_text() == "x"


def test_installations_that_cannot_be_asked(tmp_path: Path) -> None:
    with pytest.raises(
        CouldNotRun, match=r"llm: /no/vllm cannot be started \(No such file.*tenants.llm.vllm.bin"
    ):
        ask("/no/vllm", "serve")
    with pytest.raises(
        CouldNotRun, match=r"llm: its Python has no package no_such_package_at_all; install it"
    ):
        ask(sys.executable, "-c", "import no_such_package_at_all")
    with pytest.raises(CouldNotRun, match=r"ended with code 3"):
        ask(sys.executable, "-c", "import sys; print('why', file=sys.stderr); sys.exit(3)")


def completions(**fields: Any) -> Tenant:
    return Tenant.model_validate({"kind": "completions", **fields})


def test_every_vllm_starts_last() -> None:
    command = ["/v/bin/vllm", "serve", "x"]
    tenants = {
        "llm": completions(engine="launch", vllm={"model": "tiny-qwen3"}),
        "own": completions(engine="launch", command=command, url="http://127.0.0.1:1"),
        "tts": Tenant.model_validate({"kind": "speech", "engine": "builtin"}),
        "other": completions(engine="launch", command=["serve-llm"], url="http://127.0.0.1:2"),
        "head": Tenant.model_validate({"kind": "face", "engine": "builtin"}),
    }
    assert launch.start_order(tenants) == ("tts", "other", "head", "llm", "own")


def test_the_device_of_a_vllm_is_the_one_gpu_that_it_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    tenant = completions(engine="launch", device="cuda:1", vllm={"model": "tiny-qwen3"})
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert launch.environment(tenant, "gpu")["CUDA_VISIBLE_DEVICES"] == "1"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-aaa, GPU-bbb")
    assert launch.environment(tenant, "gpu")["CUDA_VISIBLE_DEVICES"] == "GPU-bbb"


def _sizes(config: dict[str, Any]) -> tuple[int, int]:
    """(parameters, KV values a token) of a decoder of these sizes; its norms and its router included."""
    hidden, layers, head = config["hidden_size"], config["num_hidden_layers"], config["head_dim"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    attention = hidden * head * 2 * (heads + kv_heads) + 2 * head
    experts = config.get("num_experts", 0)
    wide = config["moe_intermediate_size"] * experts if experts else config["intermediate_size"]
    layer = attention + 3 * hidden * wide + hidden * experts + 2 * hidden
    embeddings = config["vocab_size"] * hidden * (1 if config["tie_word_embeddings"] else 2)
    return layers * layer + hidden + embeddings, 2 * layers * kv_heads * head


def test_the_sizes_of_the_shapes_are_those_of_their_files() -> None:
    folder = data_dir("fixtures") / "models"
    assert {path.parent.name for path in folder.glob("*/config.json")} == set(MODEL_SHAPES)
    for name, shape in MODEL_SHAPES.items():
        config = json.loads((folder / name / "config.json").read_text(encoding="utf-8"))
        parameters, kv_values = _sizes(config)
        assert (shape.weights_bytes, shape.kv_bytes_per_token) == (2 * parameters, 2 * kv_values), name
        assert shape.max_tokens == config["max_position_embeddings"]


@pytest.mark.parametrize(
    ("name", "billions"),
    [("qwen3-0.6b-shaped", 0.596), ("qwen3-8b-shaped", 8.19), ("qwen3-30b-a3b-shaped", 30.53)],
)
def test_the_shapes_are_as_large_as_what_was_published(name: str, billions: float) -> None:
    assert MODEL_SHAPES[name].weights_bytes / 2e9 == pytest.approx(billions, rel=0.01)
