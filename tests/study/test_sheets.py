"""CSV files of tests that yield several metrics: a line for each value, or a column for each metric."""

from __future__ import annotations

from typing import Any

import pytest
from tests.study.problems import RUN, bench, exported

import bestarm as ba
from bestarm.study.files.exchange import import_results, tell_results

FOLLOW = "the values of one test stand on lines that follow each other"
GOOD = {"time": 4.0, "memory": 50.0, "crash": 0.0}


@pytest.fixture
def study() -> ba.Study:
    return ba.Study.create(bench(), storage=":memory:")


def results(study: ba.Study) -> list[tuple[str, str, Any]]:
    """Arm, what was measured, and the values of every test with a result."""
    found = []
    for test in study.storage.history(study.record.key):
        if test.outcomes and (value := test.outcomes[-1].value) is not None:
            values = (value, *test.outcomes[-1].more)
            found.append((study.plan.arm_names[test.arm], study.plan.test_names[test.metric], values))
    return found


@pytest.mark.parametrize(
    "text",
    [
        "arm,time,memory,crash\na,4,50,0\nb,5,60,1\n",
        "Arm;Crash;TIME;memory\na;0;4;50\n;;;\nb;1;5;60\n",
        "\ufeffmemory\ttime\tcrash\tarm\tround\n50\t4\t0\ta\t1\n60\t5\t1\tb\t1\n",
        "arm,time,memory,crash,size\na,4,50,0,\nb,5,60,1,\n",
        "test,arm,metric,value\n1,a,time,4\n1,a,memory,50\n1,a,crash,0\n2,b,crash,1\n2,b,time,5\n2,b,memory,60\n",
        "arm,metric,value,test\na,memory,50,x\na,time,4,x\na,crash,0,x\nb,time,5,y\nb,memory,60,y\nb,crash,1,y\n",
        "test,arm,metric,value\n1,a,time,4\n1,a,memory,50\n1,a,crash,0\n1,b,time,5\n1,b,memory,60\n1,b,crash,1\n",
    ],
)
def test_the_same_results_in_many_forms(study: ba.Study, text: str) -> None:
    recorded = import_results(study, text.encode(), "f.csv")
    assert (recorded.results, recorded.first, recorded.last) == (2, 1, 2)
    assert results(study) == [("a", RUN, (4.0, 50.0, 0.0)), ("b", RUN, (5.0, 60.0, 1.0))]


def test_a_line_may_have_several_tests(study: ba.Study) -> None:
    text = "arm,time,memory,crash,size\na,4,50,0,3\nb,,,,2\nslow,5,60,1,\n"
    assert import_results(study, text.encode(), "f.csv").results == 4
    assert [(arm, what) for arm, what, _ in results(study)] == [("a", RUN), ("a", "size"), ("b", "size"), ("slow", RUN)]


def test_columns_for_metrics_that_are_measured_alone() -> None:
    problem = ba.Problem(
        arms=["a", "b"],
        objective=ba.maximize("value", noise=ba.Gaussian(1.0)),
        constraints=[ba.at_most("reason", 5, noise=ba.Gaussian(1.0)), ba.at_most("=x", 5, noise=ba.Gaussian(1.0))],
    )
    study = ba.Study.create(problem, storage=":memory:")
    # Metrics that are called like columns, and like formulas.
    import_results(study, b"arm,value,reason,'=x\na,1,2,3\nb,,4,\n", "f.csv")
    expected = [("a", "value", (1.0,)), ("a", "reason", (2.0,)), ("a", "=x", (3.0,)), ("b", "reason", (4.0,))]
    assert results(study) == expected
    import_results(study, b"arm,value\nb,7\n", "f.csv")
    import_results(study, b"arm,metric,value,reason\nb,value,8,because\n", "f.csv")
    assert results(study)[4:] == [("b", "value", (7.0,)), ("b", "value", (8.0,))]
    [test] = study.ask(1)
    tell_results(study, f"test,value\n{test.id},9\n".encode(), "f.csv")


@pytest.mark.parametrize(
    ("text", "complaints"),
    [
        (
            "arm,time,memory,crash,size\na,4,50,,\nb,,50,0,3\na,,,,\na,x,1,0,\na,4,2000,0,\nz,4,5,0,\n,4,5,0,\na,4,5\n",
            [
                "line 2: crash: is missing; one test yields it together with 'time' and 'memory'",
                "line 3: time: is missing; one test yields it together with 'memory' and 'crash'",
                "line 4: has no value of 'time', 'memory', 'crash' and 'size'",
                "line 5: value of 'time' = 'x': must be a number",
                "line 6: value of 'memory' = 2000.0: must lie between 0 and 1000, the range of its values",
                "line 7: arm = 'z': no such arm; there are 'a', 'b', 'slow'",
                "line 8: arm: is missing",
                "line 9: has 3 fields; the header has 5",
            ],
        ),
        (
            "test,arm,metric,value\n1,a,time,4\n1,a,memory,50\n2,a,time,4\n2,a,memory,x\n2,a,crash,0\n3,a,time,1\n"
            "3,a,time,2\n3,a,memory,2\n3,a,crash,0\n4,a,size,3\n1,a,crash,0\n,a,time,1\n5,a,speed,1\n6,a,time,\n",
            [
                f"line 2: test = '1': lacks 'crash'; {FOLLOW}",
                "line 5: value = 'x': must be a number",
                f"line 7: test = '3': lacks 'memory' and 'crash'; {FOLLOW}",
                f"line 12: test = '1': lacks 'time' and 'memory'; {FOLLOW}",
                "line 13: metric = 'time': is measured together with 'memory' and 'crash'; give the lines of one test "
                "the same number in a column test, or give each metric a column of its own",
                "line 14: metric = 'speed': no such metric; there are 'time', 'memory', 'crash', 'size'",
                "line 15: value: is missing",
            ],
        ),
    ],
)
def test_every_bad_line_is_named(study: ba.Study, text: str, complaints: list[str]) -> None:
    with pytest.raises(ba.InvalidInput) as caught:
        import_results(study, text.encode(), "f.csv")
    number = len(complaints)
    assert str(caught.value).split("\n  ") == [
        f"f.csv: {number} lines cannot be accepted; nothing was recorded",
        *complaints,
    ]
    assert results(study) == []


@pytest.mark.parametrize(
    ("header", "complaint"),
    [
        ("arm,time", "the column memory, crash must be there beside 'time': one test yields them"),
        ("arm,time,memory,crash,speed", "column 'speed': is not known; there are test, arm, metric, value, reason"),
        ("arm,time,memory,crash,Time", "column 'time': is there 2 times"),
        ("arm,metric,time,memory,crash", "has a column time, memory, crash; metric and value have no place beside it"),
        ("arm,value,time,memory,crash", "has a column time, memory, crash; metric and value have no place beside it"),
        ("time,memory,crash,reason", "the column arm must be there beside time, memory, crash, reason"),
        ("arm,metric,value,item", "column 'item': is not known"),
        ("arm,value", "the column metric must be there beside arm, value"),
    ],
)
def test_headers_that_cannot_be(study: ba.Study, header: str, complaint: str) -> None:
    with pytest.raises(ba.InvalidInput) as caught:
        import_results(study, f"{header}\na,1,2,0,3\n".encode(), "f.csv")
    assert str(caught.value).startswith(f"f.csv: line 1: {complaint}")


def test_a_column_that_is_not_known_is_set_against_those_of_metrics(study: ba.Study) -> None:
    """They may stand there, unless each line has a metric and a value."""
    with pytest.raises(ba.InvalidInput, match=r"place, time, size, memory, crash; to leave it out, ignore it by name$"):
        import_results(study, b"arm,time,memory,crash,speed\na,1,2,0,3\n", "f.csv")
    with pytest.raises(ba.InvalidInput, match=r"study, place; to leave it out"):
        import_results(study, b"arm,metric,value,speed\na,size,2,3\n", "f.csv")


def test_results_of_tests_that_were_asked_for(study: ba.Study) -> None:
    tests = study.ask(6)
    assert [test.metric for test in tests] == [RUN, "size"] * 3
    recorded = tell_results(study, b"test,time,memory,crash,size\n3,5,60,1,\n2,,,,3\n1,4,50,0,\n", "f.csv")
    assert (recorded.results, recorded.first) == (3, None)
    long = b"test,metric,value\n6,size,2\n5,crash,1\n5,memory,60\n4,size,3\n5,time,5\n"
    assert tell_results(study, long, "f.csv").results == 3
    assert [values for _, _, values in results(study)] == [
        (4.0, 50.0, 0.0),
        (3.0,),
        (5.0, 60.0, 1.0),
        (3.0,),
        (5.0, 60.0, 1.0),
        (2.0,),
    ]
    # Told again, it counts once.
    tell_results(study, long, "f.csv")
    assert study.status().tests == 6


def test_bad_lines_of_tests_that_were_asked_for(study: ba.Study) -> None:
    study.ask(6)
    study.tell(1, GOOD)
    wide = "test,time,memory,crash,size\n1,4,51,0,\n2,4,50,0,\n3,4,50,,\n4,,,,\n5,4,50,0,3\n3,4,50,0,\n9,1,1,1,\n"
    with pytest.raises(ba.InvalidInput) as caught:
        tell_results(study, wide.encode(), "f.csv")
    assert str(caught.value).split("\n  ")[1:] == [
        f"line 2: test = 1 ('{RUN}' of 'a'): has the result time 4, memory 50, crash 0 already; if that is wrong, "
        "`bestarm tell study 1 memory=51 --correct --reason WHY` replaces it",
        f"line 3: test = 2: is 'size' of 'a', and yields no '{RUN}'",
        "line 4: crash: is missing; one test yields it together with 'time' and 'memory'",
        f"line 6: test = 5: is '{RUN}' of 'slow', and yields no 'size'",
        "line 7: test = 3: is on line 4 too",
        "line 8: test = 9: no such test in study 'study'",
    ]
    long = (
        "test,arm,metric,value\n3,b,time,4\n3,b,memory,50\n3,b,time,5\n5,slow,size,1\n2,a,time,4\n5,slow,time,x\n"
        "5,slow,memory,1\n5,slow,crash,1\n4,a,size,1\n1,a,memory,49\n1,a,time,4\n"
    )
    with pytest.raises(ba.InvalidInput) as caught:
        tell_results(study, long.encode(), "f.csv")
    assert str(caught.value).split("\n  ")[1:] == [
        f"line 2: test = 3: lacks 'crash'; a test of {RUN} is told all its values at once",
        "line 4: test = 3 ('time'): is on line 2 too",
        f"line 5: test = 5: is '{RUN}' of 'slow'",
        "line 6: test = 2: is 'size' of 'a'",
        "line 7: value = 'x': must be a number",
        "line 10: test = 4: is 'size' of 'b'",
        f"line 11: test = 1 ('{RUN}' of 'a'): has the result time 4, memory 50, crash 0 already; if that is wrong, "
        "`bestarm tell study 1 memory=49 --correct --reason WHY` replaces it",
        f"line 12: test = 1: lacks 'crash'; a test of {RUN} is told all its values at once",
    ]
    with pytest.raises(ba.InvalidInput, match=r"is 'time . memory . crash' of 'b'; name the metric of each value in a"):
        tell_results(study, b"test,value\n3,4\n", "f.csv")
    assert study.status().tests == 1


def test_exports_leave_out_what_has_no_result(study: ba.Study) -> None:
    study.ask(4)
    study.tell(1, GOOD)
    study.correct(1, {"memory": 60.0}, "typo")
    study.abandon(3, "spilled")
    lines = exported(study).splitlines()
    assert [line.split(",")[:4] for line in lines[1:]] == [
        ["1", "a", "time", "4.0"],
        ["1", "a", "memory", "60.0"],
        ["1", "a", "crash", "0.0"],
        ["2", "a", "size", ""],
        ["3", "b", "time", ""],
        ["3", "b", "memory", ""],
        ["3", "b", "crash", ""],
        ["4", "b", "size", ""],
    ]
    assert '""value"": 50.0' in lines[2]
    copy = ba.Study.create(bench(), storage=":memory:")
    recorded = import_results(copy, exported(study).encode(), "f.csv")
    assert (recorded.results, recorded.skipped) == (1, 3)
    assert results(copy) == [("a", RUN, (4.0, 60.0, 0.0))]
    # Half of a test is no test, in an export too.
    half = "\n".join(line for line in lines if ",crash," not in line)
    with pytest.raises(ba.InvalidInput, match="line 2: test = '1': lacks 'crash'"):
        import_results(copy, half.encode(), "g.csv")
