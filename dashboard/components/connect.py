"""Draws the lines that connect a trainer, one tab a trainer, for the page that has no run yet."""

from dataclasses import dataclass

from dash import dcc, html
from dash.development.base_component import Component

from dashboard.ids import fleet as fleet_ids

__all__ = ["WAYS", "Way", "connect_card"]

_LOOP = """import trainer_hooks

monitor = trainer_hooks.connect("{address}", run="my-run")
monitor.log_step(step, scalars={{"reward/mean": reward}})"""
_PYTORCH = """import trainer_hooks
from trainer_hooks.callbacks.torch_loop import LoopWatch

with LoopWatch(optimizer, trainer_hooks.connect("{address}", run="my-run")) as watch:
    for batch in data:
        ...
        watch.note({{"loss/policy": loss}})
        optimizer.step()"""
_TRL = """from trainer_hooks.callbacks.trl import VitalsCallback

trainer = GRPOTrainer(..., callbacks=[VitalsCallback(url="{address}")])"""
_VERL = """python -m verl.trainer.main_ppo ... \\
    'trainer.logger=["console","rlvitals"]' \\
    +ray_kwargs.ray_init.runtime_env.env_vars.RLVITALS_URL={address}"""
_OPENRLHF = """python -m trainer_hooks.callbacks.bootstrap install
export RLVITALS_HOOKS=openrlhf RLVITALS_URL={address}
ray start --head"""
_SKYRL = """# before the training starts: export RLVITALS_URL={address}
from trainer_hooks.callbacks.skyrl import VitalsCallback

trainer.add_callback(VitalsCallback())"""
_SLIME = """export RLVITALS_URL={address} RLVITALS_RUN=my-run
python train.py ... \\
    --custom-rollout-log-function-path trainer_hooks.callbacks.slime.watch_samples"""
_CURL = """curl {address}/api/v1/ingest -H 'Content-Type: application/json' -d '{{
  "schema_version": 1, "run": "my-run",
  "records": [{{"step": 1, "scalars": {{"reward/mean": 0.5}}}}]
}}'"""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to connect a trainer.

    Attributes:
        name: The trainer, as its tab is called.
        template: The lines to paste, with ``{address}`` in place of the collector's address.
        page: The page below docs/ that explains it.
    """

    name: str
    template: str
    page: str

    def lines(self, address: str) -> str:
        """Return the lines to paste."""
        return self.template.format(address=address)


WAYS = (
    Way("Python", _LOOP, "sdk.md"),
    Way("PyTorch", _PYTORCH, "trainers/loops.md"),
    Way("TRL", _TRL, "trainers/trl.md"),
    Way("verl", _VERL, "trainers/verl.md"),
    Way("OpenRLHF", _OPENRLHF, "trainers/openrlhf.md"),
    Way("SkyRL", _SKYRL, "trainers/skyrl.md"),
    Way("slime", _SLIME, "trainers/slime.md"),
    Way("curl", _CURL, "api.md"),
)


def connect_card(address: str) -> Component:
    """Return the card that explains how to send the first run to the collector at ``address``."""
    return html.Section(
        className="card connect",
        children=[
            html.Div(className="heartbeat"),
            html.H1("No runs yet"),
            html.P("Connect a trainer. The run opens here as soon as its first step arrives."),
            html.Fieldset(
                [
                    html.Legend("Trainer", className="unseen"),
                    dcc.RadioItems(
                        id=fleet_ids.CONNECT_WAY,
                        options=[way.name for way in WAYS],
                        value=WAYS[0].name,
                        inline=True,
                        className="segments",
                    ),
                ],
                className="plain-fieldset ways",
            ),
            *(_panel(way, way.lines(address), is_hidden=way is not WAYS[0]) for way in WAYS),
            html.P(
                [
                    html.Button("Show me a recorded collapse", id=fleet_ids.CONNECT_SAMPLE, className="button"),
                    html.Span(id=fleet_ids.CONNECT_SAMPLE_STATE, className="aside", role="status"),
                ],
                className="sample",
            ),
            html.P(
                [
                    "If the collector needs a key, trainers read it from ",
                    html.Code("RLVITALS_API_KEY"),
                    ", and curl sends it with ",
                    html.Code('-H "Authorization: Bearer $RLVITALS_API_KEY"'),
                    ".",
                ],
                className="aside",
            ),
            html.P([html.Code("rlvitals demo"), " trains a small model that collapses."], className="aside"),
        ],
    )


def _panel(way: Way, lines: str, *, is_hidden: bool) -> Component:
    copy = dcc.Clipboard(content=lines, title="Copy", className="copy", children="Copy", copied_children="Copied")
    return html.Div(
        id=fleet_ids.connect_panel(way.name),
        hidden=is_hidden,
        children=[
            html.Div([html.Pre(html.Code(lines), tabIndex="0"), copy], className="snippet"),
            html.P(["Explained in ", html.Code(f"docs/{way.page}")], className="aside"),
        ],
    )
