"""What a scrape means: short names, differences of counters, resets, old and new names."""

from cotenant.observers.engine_series import EngineSeries
from cotenant.resources import data_dir
from cotenant.wire.prometheus import MetricSample, PrometheusDecoder


def scrape(text: str) -> list[MetricSample]:
    decoder = PrometheusDecoder()
    return decoder.feed(text.encode()) + decoder.close()


def page() -> str:
    return (data_dir("fixtures") / "wire" / "vllm_metrics.prom").read_text(encoding="utf-8")


def test_gauges_come_at_once_and_counters_as_differences() -> None:
    series, text = EngineSeries(), page()
    assert series.values(scrape(text)) == {"running": 8, "waiting": 2, "kv_cache_usage": 0.24999999999999994}
    later = text
    for before, after in (
        ("prompt_tokens_total{E} 65024.0", "prompt_tokens_total{E} 97024.0"),
        ("iteration_tokens_total_count{E} 410.0", "iteration_tokens_total_count{E} 415.0"),
        ("iteration_tokens_total_sum{E} 68228.0", "iteration_tokens_total_sum{E} 100228.0"),
        ("prefix_cache_hits_total{E} 512.0", "prefix_cache_hits_total{E} 528.0"),
        ('le="8192.0",model_name="m"} 408.0', 'le="8192.0",model_name="m"} 413.0'),
        ('le="+Inf",model_name="m"} 410.0', 'le="+Inf",model_name="m"} 415.0'),
    ):
        engine = '{engine="0",model_name="m"}'
        assert text.count(before.replace("{E}", engine)) == 1
        later = later.replace(before.replace("{E}", engine), after.replace("{E}", engine))
    assert series.values(scrape(later)) == {
        "running": 8, "waiting": 2, "kv_cache_usage": 0.24999999999999994, "preemptions": 0,
        "prefix_cache_hits": 16, "prefix_cache_queries": 0, "prompt_tokens": 32000, "generation_tokens": 0,
        "steps": 5, "step_tokens": 32000, "largest_step_tokens": 8192,
    }  # fmt: skip


def test_names_with_and_without_total_and_those_of_old_releases() -> None:
    series = EngineSeries()
    series.values(scrape("vllm:prompt_tokens 5\nvllm:gpu_prefix_cache_hits_total 1\n"))
    values = series.values(
        scrape("vllm:prompt_tokens 9\nvllm:gpu_prefix_cache_hits_total 3\nvllm:gpu_cache_usage_perc 0.5\n")
    )
    assert values == {"prompt_tokens": 4, "prefix_cache_hits": 2, "kv_cache_usage": 0.5}


def test_names_that_only_look_alike_are_not_taken() -> None:
    text = (
        "vllm:prompt_tokens_created 1.7e9\nvllm:prompt_tokens_by_source_total 7\n"
        "vllm:num_requests_waiting_by_reason 3\nsglang:num_running_reqs 2\nvllm:num_requests_running NaN\n"
    )
    series = EngineSeries()
    assert series.values(scrape(text)) is None
    assert series.values(scrape(text)) is None


def test_a_server_that_began_again_counts_from_zero() -> None:
    series = EngineSeries()
    series.values(scrape("vllm:generation_tokens_total 100\n"))
    assert series.values(scrape("vllm:generation_tokens_total 30\n")) == {"generation_tokens": 30}
    assert series.values(scrape("vllm:generation_tokens_total 34\n")) == {"generation_tokens": 4}


def test_a_difference_spans_a_scrape_that_failed() -> None:
    series = EngineSeries()
    series.values(scrape("vllm:generation_tokens_total 100\n"))
    assert series.values([]) is None
    assert series.values(scrape("vllm:generation_tokens_total 130\n")) == {"generation_tokens": 30}


def test_engines_behind_one_server_add_up() -> None:
    text = (
        'vllm:num_requests_running{engine="0"} 3\nvllm:num_requests_running{engine="1"} 4\n'
        'vllm:kv_cache_usage_perc{engine="0"} 0.2\nvllm:kv_cache_usage_perc{engine="1"} 0.7\n'
    )
    assert EngineSeries().values(scrape(text)) == {"running": 7, "kv_cache_usage": 0.7}


def test_the_largest_step_is_the_highest_bucket_that_grew() -> None:
    def text(small: int, large: int, beyond: int) -> str:
        name = "vllm:iteration_tokens_total_bucket"
        return (
            f'{name}{{le="8.0"}} {small}\n{name}{{le="512.0"}} {small + large}\n'
            f'{name}{{le="+Inf"}} {small + large + beyond}\n'
        )

    series = EngineSeries()
    assert series.values(scrape(text(5, 5, 5))) is None
    assert series.values(scrape(text(9, 5, 5))) == {"largest_step_tokens": 8}
    assert series.values(scrape(text(9, 6, 5))) == {"largest_step_tokens": 512}
    assert series.values(scrape(text(9, 6, 6))) == {"largest_step_tokens": 512}  # at least
    assert not series.values(scrape(text(9, 6, 6)))
