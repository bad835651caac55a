"""export.draft_export: a program in any case, and what it does otherwise than the module."""

import warnings

import pytest

import rushlight as rl
from rushlight import export, nn
from rushlight.export import Dim
from rushlight.export._draft_export import FailureType


def draft(module, args, **options):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        ep = export.draft_export(module, args, **options)
    assert bool(told) == bool(ep._report.failures)
    if told:
        assert str(told[0].message) == str(ep._report) and told[0].filename == __file__
    return ep, [(f.failure_type, f.data["reason"]) for f in ep._report.failures]


class Plain(nn.Module):
    def forward(self, x):
        return x.relu() * 2


class Branches(nn.Module):
    def forward(self, x):
        return x + 1 if x.sum() > 0 else x - 1


class Fixed(nn.Module):
    def forward(self, x, y):
        return x.view(4, 3).sum() + y * 2


class Draws(nn.Module):
    def forward(self, x):
        return x + float(rl.rand(()))


def test_nothing_to_report(tmp_path):
    x = rl.randn(2, 3)
    dims = {"x": {0: Dim("batch")}}
    ep, failures = draft(Plain(), (x,), dynamic_shapes=dims)
    assert not failures and ep._report.successful() and "no issues" in str(ep._report)
    exported = export.export(Plain(), (x,), dynamic_shapes=dims)
    assert ep.graph_module.code == exported.graph_module.code
    assert ep.range_constraints == exported.range_constraints and exported._report is None
    export.save(ep, tmp_path / "plain.rush")
    y = rl.randn(5, 3)
    assert rl.equal(export.load(tmp_path / "plain.rush").module()(y), Plain()(y))


def test_values_that_python_reads_stay():
    x = rl.ones(3)
    with pytest.raises(export.UserError, match="would depend on values"):
        export.export(Branches(), (x,))
    ep, failures = draft(Branches(), (x,), dynamic_shapes={"x": {0: Dim.DYNAMIC}})
    assert [kind for kind, _ in failures] == [FailureType.DATA_DEPENDENT_ERROR]
    assert "test_draft_export.py:" in failures[0][1] and "where()" in failures[0][1]
    assert not ep._report.successful() and "1. DATA_DEPENDENT_ERROR: " in str(ep._report)
    assert rl.equal(ep.module()(-rl.ones(5)), rl.zeros(5))  # the way of the example


def test_sizes_that_cannot_change_stay():
    args = (rl.randn(4, 3), rl.randn(2))
    dims = {"x": {0: Dim("rows")}, "y": {0: Dim("length")}}
    with pytest.raises(export.ConstraintViolationError):
        export.export(Fixed(), args, dynamic_shapes=dims)
    ep, failures = draft(Fixed(), args, dynamic_shapes=dims)
    assert [kind for kind, _ in failures] == [FailureType.GUARD_ADDED]
    assert "'rows' is 4" in str(ep._report) and list(ep.range_constraints) == ["length"]
    y = rl.randn(7)
    assert rl.equal(ep.module()(args[0], y), Fixed()(args[0], y))
    with pytest.raises(RuntimeError):
        ep.module()(rl.randn(5, 3), y)


def test_a_module_that_is_not_the_same_twice():
    with pytest.raises(export.UserError):
        export.export(Draws(), (rl.zeros(3),))
    ep, failures = draft(Draws(), (rl.zeros(3),), dynamic_shapes={"x": {0: Dim("n")}})
    assert {kind for kind, _ in failures} >= {FailureType.DATA_DEPENDENT_ERROR}
    assert 0 <= ep.module()(rl.zeros(3))[0] < 1


def test_what_is_no_matter_of_the_module_is_still_refused():
    with pytest.raises(ValueError, match="expected a module"):
        export.draft_export(lambda x: x, (rl.ones(2),))
    with pytest.raises(export.UserError, match="must be a tuple"):
        export.draft_export(Plain(), rl.ones(2))
    with pytest.raises(NotImplementedError):
        draft(Plain(), (rl.ones(2),))[0]._report.apply_suggested_fixes()
