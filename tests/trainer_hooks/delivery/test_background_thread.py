"""The signals that background threads receive, and those that the user's functions in them do."""

import signal
import threading

import pytest

from tests.live import PATIENCE_SECONDS
from tests.trainer_hooks.recording.two_groups import rollouts
from trainer_hooks.delivery import DropCounter, signals_of_training
from trainer_hooks.delivery.background_thread import BackgroundThread
from trainer_hooks.recording.health import RunHealth
from trainer_hooks.recording.responses.sampler import ResponseSampler
from trainer_hooks.signals.action_tokens.tokens import ActionTokens
from trainer_hooks.wire import AlertNotice, Receipt


def blocked():
    """Return the signals that this thread blocks."""
    return signal.pthread_sigmask(signal.SIG_BLOCK, ())


def run_in_background(work):
    """Call a function in a background thread, and wait for its end."""
    thread = BackgroundThread(work, name="test")
    thread.start()
    thread.wait_for_end(PATIENCE_SECONDS)


@pytest.fixture
def own_mask():
    """The mask of this thread, in which the training has blocked one signal."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    yield blocked()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_a_signal_that_training_blocks_later_does_not_reach_our_threads(own_mask):
    """They block all but those of errors, of which faulthandler tells; the training's thread keeps its mask."""
    masks = []

    def start_another():
        masks.append(blocked())
        run_in_background(lambda: masks.append(blocked()))

    run_in_background(start_another)
    assert len(masks) == 2
    for mask in masks:
        assert {signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2} <= mask
        assert not mask & {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}
    assert blocked() == own_mask


def test_a_thread_that_cannot_be_started_leaves_the_mask(own_mask):
    """A thread that has run cannot be started again."""
    thread = BackgroundThread(list, name="test")
    thread.start()
    with pytest.raises(RuntimeError):
        thread.start()
    assert blocked() == own_mask


def test_functions_of_the_user_have_the_mask_of_the_training(own_mask):
    """A program that they start inherits it, and would not end on a SIGTERM; afterwards all is blocked again."""
    masks = []
    alert = AlertNotice(id="a", kind="likelihood_drift", severity="warning", opened_step=3, summary="falling")

    def notify():
        health = RunHealth(7, DropCounter(), [lambda _: masks.append(blocked())])
        health.update(Receipt(run_id="r", accepted=1, alerts=[alert]), 7)
        sampler = ResponseSampler(count=1, max_bytes=1 << 20, redact=lambda text: masks.append(blocked()) or text)
        sampler.sample(ActionTokens.of(rollouts(decode=str)), seed="1 0 0")
        masks.append("all" if signal.SIGTERM in blocked() else "few")

    run_in_background(lambda: run_in_background(notify))
    assert masks.pop() == "all"
    assert len(masks) > 1
    assert all(mask == own_mask for mask in masks)
    with signals_of_training():  # a thread of the training itself
        assert blocked() == own_mask


def test_where_the_platform_has_no_masks_threads_start_without(monkeypatch):
    """Windows has none."""
    monkeypatch.delattr(signal, "pthread_sigmask")
    seen = threading.Event()

    def work():
        with signals_of_training():
            seen.set()

    run_in_background(work)
    assert seen.is_set()
