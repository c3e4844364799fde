from tellmost.running import stopwatch


def test_an_activity_within_another_counts_for_itself_alone(monkeypatch):
    seconds = iter([0.0, 1.0, 3.0, 4.0, 4.5, 10.0])
    monkeypatch.setattr(stopwatch.time, "perf_counter", lambda: next(seconds))
    watch = stopwatch.Stopwatch()
    with watch.measure("selecting"):
        with watch.measure("embedding"):
            pass
        with watch.measure("embedding"):
            pass
    assert watch.seconds == {"embedding": 2.5, "selecting": 7.5}
