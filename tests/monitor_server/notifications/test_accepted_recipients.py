"""Which recipients of a channel have accepted its open message."""

from monitor_server.notifications.configuration.tables import WebhookChannel
from monitor_server.notifications.delivery.accepted_recipients import MAX_CHANNELS, AcceptedRecipients

CHANNEL = WebhookChannel(type="webhook", url="https://one.example", secret="s" * 32)


def test_recipients_are_remembered_until_the_message_or_the_address_is_another():
    """A repeat of the same message to the same address leaves them out."""
    recipients = AcceptedRecipients()
    recipients.of("hook", "m1", CHANNEL).add("a")
    assert recipients.of("hook", "m1", CHANNEL) == {"a"}
    assert recipients.of("hook", "m2", CHANNEL) == set()
    recipients.of("hook", "m2", CHANNEL).add("b")
    assert recipients.of("hook", "m2", CHANNEL.model_copy(update={"url": "https://two.example"})) == set()


def test_a_message_that_is_over_is_forgotten():
    """Its channel has no entry until its next message."""
    recipients = AcceptedRecipients()
    recipients.of("hook", "m1", CHANNEL).add("a")
    recipients.forget("hook")
    recipients.forget("mail")
    assert len(recipients) == 0
    assert recipients.of("hook", "m1", CHANNEL) == set()


def test_former_channels_do_not_pile_up():
    """Each change of the settings may leave one behind; the oldest is forgotten."""
    recipients = AcceptedRecipients()
    for number in range(MAX_CHANNELS + 5):
        recipients.of(f"former-{number}", "m", CHANNEL).add(str(number))
    assert len(recipients) == MAX_CHANNELS
    assert recipients.of(f"former-{MAX_CHANNELS + 4}", "m", CHANNEL) == {str(MAX_CHANNELS + 4)}
    assert recipients.of("former-0", "m", CHANNEL) == set()
