"""perf_report: sweeps, tables, files."""

import csv

import pytest

from tilewright.testing import Benchmark, perf_report


def bench(**changed):
    given = {"x_names": ["n"], "x_vals": [1, 2], "line_arg": "provider", "line_vals": ["a", "b"],
             "line_names": ["A", "B"], "plot_name": "times", "args": {"scale": 10}, "ylabel": "ms", **changed}
    return Benchmark(**given)


def measured(n, provider, scale, extra=0):
    value = n * scale + (provider == "b") + extra
    return value, value - 1, value + 1


def test_table_on_standard_output(capsys):
    assert perf_report(bench())(measured).run(print_data=True) is None
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "times:"
    assert lines[1].split() == ["n", "A", "(ms)", "B", "(ms)"]
    assert [line.split() for line in lines[2:]] == [["1", "10.000000", "11.000000"], ["2", "20.000000", "21.000000"]]


def test_extra_arguments_and_single_numbers(capsys):
    perf_report(bench(x_vals=[1]))(lambda n, provider, scale, extra: n + extra).run(extra=5)
    assert capsys.readouterr().out.splitlines()[-1].split() == ["1", "6.000000", "6.000000"]


def test_csv_file(tmp_path, capsys):
    perf_report(bench())(measured).run(save_path=str(tmp_path / "out"))
    with (tmp_path / "out" / "times.csv").open() as file:
        rows = list(csv.reader(file))
    assert rows == [["n", "A", "B"], ["1", "10.0", "11.0"], ["2", "20.0", "21.0"]]


def test_several_x_names(capsys):
    two = bench(x_names=["m", "n"], x_vals=[(2, 3), 4], line_vals=["a"], line_names=["A"])
    perf_report([two, two])(lambda m, n, provider, scale: m * n).run()
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()[0].isdigit()]
    assert rows == [["2", "3", "6.000000"], ["4", "4", "16.000000"]] * 2


def test_wrong_descriptions():
    with pytest.raises(ValueError, match="2 line_vals have 1 line_names"):
        bench(line_names=["A"])
    with pytest.raises(ValueError, match="x_vals has"):
        perf_report(bench(x_vals=[(1, 2)]))(measured).run()
