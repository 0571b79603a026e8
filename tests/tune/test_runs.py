"""What is read of the runs of a trial."""

from __future__ import annotations

from rl.tune.runs import points

STEPS, PERIOD = 100_000, 25_000


def evaluated(folder, *steps):
    folder.mkdir(parents=True)
    rows = [f"{step},{step}.0" for step in steps]
    (folder / "metrics.csv").write_text("\n".join(["step,eval/return_mean", *rows]) + "\n")


def test_equal_numbers_are_equal_training_steps_of_the_same_seed(tmp_path):
    """Iterations of 30,000 steps pass some multiples of the period at once, and end behind the last one."""
    for name, steps in (
        ("fine", range(25_000, 100_001, 25_000)),
        ("coarse", (30_000, 60_000, 90_000, 120_000)),
    ):
        evaluated(tmp_path / name / "run_0", *steps)
        evaluated(tmp_path / name / "run_1", steps[0], steps[1])
    evaluated(tmp_path / "long" / "run_0", 75_000, 150_000)
    evaluated(tmp_path / "long" / "run_1", 75_000, 150_000)
    fine, coarse, long = (points(tmp_path / name, 2, STEPS, PERIOD) for name in ("fine", "coarse", "long"))
    assert [number for number, _ in fine] == [number for number, _ in coarse] == [0, 1, 2, 3, 4, 5]
    assert long == [(2, 75_000.0), (3, 150_000.0), (6, 112_500.0), (7, 150_000.0)]
    evaluated(tmp_path / "odd" / "run_0", 30_000, 60_000, 90_000, 100_000)  # the end is no multiple
    assert [number for number, _ in points(tmp_path / "odd", 1, STEPS, 30_000)] == [0, 1, 2, 3]
