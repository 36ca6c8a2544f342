import pytest

pytest.importorskip("verl", reason="verl has an environment of its own: make test-trainers")
pytest.importorskip("verl.plugin.platform", reason="this verl trains on accelerators alone")

ON_CPU = {"VERL_PLATFORM": "cpu", "VERL_USE_EXTERNAL_MODULES": "verl_cpu"}


def test_verls_own_worker_ends_with_the_same_weights_whatever_fails(ends_of, collector, every_collector):
    """Its trainer, worker, FSDP2 engine and losses; weights and generators to the last bit, with every collector."""
    (alone,) = ends_of("verl_training.py", [], VERL_USE_EXTERNAL_PLUGINS="none", **ON_CPU)
    watched = ends_of("verl_training.py", every_collector, VERL_USE_EXTERNAL_PLUGINS="rlvitals", **ON_CPU)
    assert watched == [alone] * len(every_collector)
    assert [record.step for record in collector.records] == [1, 2, 3]
    for record in collector.records:
        assert record.scalars["ratio/log_var"] > 0
        assert record.summaries["likelihood/correct"].value() < 0
