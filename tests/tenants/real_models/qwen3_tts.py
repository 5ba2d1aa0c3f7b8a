"""Writes a checkpoint of Qwen3-TTS CustomVoice: the files of a released one, small sizes, random weights."""

import importlib
import json
import sys
from pathlib import Path
from typing import Any, Final

import torch

MODELS: Final = "qwen_tts.core.models"
# One code in so many ends an utterance, so that it is a few seconds long, as the draw goes.
CODES: Final = 40
_END: Final = CODES + 102
_SPECIAL: Final = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<tts_pad>",
    "<tts_text_bos>",
    "<tts_text_eod>",
)
_HEARD: Final = 0.2  # the RMS of what the codec makes of random codes
_ATTENTION: Final = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16}
_CODEC: Final[dict[str, Any]] = {
    "model_type": "qwen3_tts_tokenizer_12hz",
    "encoder_config": {
        "hidden_size": 32, "num_filters": 4, "num_hidden_layers": 1, "intermediate_size": 64,
        "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16, "codebook_size": 2048,
        "codebook_dim": 16, "vector_quantization_hidden_dimension": 16, "num_quantizers": 16,
        "upsample_groups": 32, "rope_theta": 10_000.0,
    },
    "decoder_config": {
        "hidden_size": 32, "latent_dim": 32, "codebook_dim": 32, "num_attention_heads": 2,
        "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 64, "num_hidden_layers": 2,
        "decoder_dim": 48,
    },
}  # fmt: skip


def write(folder: Path) -> None:
    """A folder for `from_pretrained`; speakers are aiden and vivian."""
    torch.manual_seed(7)
    (folder / "speech_tokenizer").mkdir(parents=True)
    ids = _write_processor(folder)
    (folder / "config.json").write_text(json.dumps(_config(ids)))
    (folder / "generation_config.json").write_text(json.dumps({"do_sample": True}))
    config = _of(f"{MODELS}.configuration_qwen3_tts", "Qwen3TTSConfig").from_pretrained(folder)
    model = _of(f"{MODELS}.modeling_qwen3_tts", "Qwen3TTSForConditionalGeneration")(config)
    _save(model.to(torch.bfloat16), folder)
    _write_codec(folder / "speech_tokenizer")


def _write_processor(folder: Path) -> dict[str, int]:
    letters = sorted(_of("tokenizers.pre_tokenizers", "ByteLevel").alphabet())
    tokenizer = _of("transformers", "Qwen2Tokenizer")(
        vocab={letter: number for number, letter in enumerate(letters)},
        merges=[],
        extra_special_tokens=list(_SPECIAL[1:]),
    )
    tokenizer.add_tokens(["assistant"])  # one token, as the prompt's cut has it
    processor = _of(f"{MODELS}.processing_qwen3_tts", "Qwen3TTSProcessor")
    processor(tokenizer=tokenizer).save_pretrained(folder)
    return {name: tokenizer.convert_tokens_to_ids(name) for name in _SPECIAL}


def _config(ids: dict[str, int]) -> dict[str, Any]:
    sections = {"interleaved": True, "mrope_section": [4, 2, 2], "rope_type": "default", "type": "default"}
    return {
        "architectures": ["Qwen3TTSForConditionalGeneration"],
        "model_type": "qwen3_tts", "dtype": "bfloat16",
        "tokenizer_type": "qwen3_tts_tokenizer_12hz",
        "tts_model_size": "0b6", "tts_model_type": "custom_voice",
        "im_start_token_id": ids["<|im_start|>"], "im_end_token_id": ids["<|im_end|>"],
        "tts_pad_token_id": ids["<tts_pad>"], "tts_bos_token_id": ids["<tts_text_bos>"],
        "tts_eos_token_id": ids["<tts_text_eod>"],
        "talker_config": {
            **_ATTENTION, "vocab_size": CODES + 1024, "hidden_size": 64, "intermediate_size": 128,
            "num_hidden_layers": 2, "rope_theta": 1_000_000, "rope_scaling": sections, "num_code_groups": 16,
            "text_vocab_size": max(ids.values()) + 2, "text_hidden_size": 64,
            "codec_pad_id": _END - 2, "codec_bos_id": _END - 1, "codec_eos_token_id": _END,
            "codec_think_id": _END + 4, "codec_nothink_id": _END + 5, "codec_think_bos_id": _END + 6,
            "codec_think_eos_id": _END + 7, "codec_language_id": {"english": _END + 10, "chinese": _END + 11},
            "spk_id": {"aiden": _END + 20, "vivian": _END + 21},
            "spk_is_dialect": {"aiden": False, "vivian": False},
            "code_predictor_config": {
                **_ATTENTION, "vocab_size": 2048, "hidden_size": 48, "intermediate_size": 96,
                "num_hidden_layers": 1, "num_code_groups": 16, "rope_theta": 1_000_000,
            },
        },
    }  # fmt: skip


def _write_codec(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps(_CODEC))
    config = _of("qwen_tts.core", "Qwen3TTSTokenizerV2Config").from_pretrained(folder)
    codec = _of("qwen_tts.core", "Qwen3TTSTokenizerV2Model")(config)
    with torch.no_grad():
        for name, weights in codec.named_parameters():
            if name.endswith("embedding_sum"):  # zeros, until they are trained
                weights.normal_()
        heard = codec.decoder(torch.randint(0, 2048, (1, 16, 50))).std()
        codec.decoder.decoder[-1].conv.weight.mul_(_HEARD / heard)
        codec.decoder.decoder[-1].conv.bias.zero_()
    _save(codec, folder)
    extractor = _of("transformers", "EncodecFeatureExtractor")
    extractor(feature_size=1, sampling_rate=24_000).save_pretrained(folder)


def _save(model: torch.nn.Module, folder: Path) -> None:
    weights = {name: value.contiguous() for name, value in model.state_dict().items()}
    _of("safetensors.torch", "save_file")(weights, folder / "model.safetensors", metadata={"format": "pt"})


def _of(module: str, name: str) -> Any:
    """Looked for here: those who check this file's types have none of these packages."""
    importlib.import_module("qwen_tts")  # changes transformers as it is loaded
    return getattr(importlib.import_module(module), name)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
