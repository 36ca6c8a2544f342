"""The program that hands one message to Apprise, in a process of its own with bounded memory.

It reads one JSON object from standard input and writes one to standard output. It imports nothing of ours: a service
that answers without end, or never, is ended with this process and not with the collector.
"""

import base64
import json
import resource
import sys
from typing import Any, Final

MEMORY_BYTES: Final = 1024 * 1024 * 1024
SERVICE_SECONDS: Final = 30.0


def main() -> None:
    """Check addresses (``check``), or send a message (``url``, ``title``, ``body``, ``format``, ``type``, ``picture``).

    The picture is a PNG in Base64, or null; services that take no files get the message without it.
    """
    given: dict[str, Any] = json.load(sys.stdin)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    import apprise  # noqa: PLC0415 - after the limit
    from apprise.attachment.memory import AttachMemory  # noqa: PLC0415

    asset = apprise.AppriseAsset(
        storage_mode=apprise.common.PersistentStoreMode.MEMORY,
        service_timeout=SERVICE_SECONDS,
        allow_templates=False,
        app_id="rlvitals",
        app_desc="rlvitals",
        http_redirects=False,
        async_mode=False,
    )
    if "check" in given:
        answer: object = [apprise.Apprise(asset=asset).add(url) for url in given["check"]]
    else:
        service = apprise.Apprise(asset=asset)
        if service.add(given["url"]):
            png = given.get("picture")
            picture = None
            if png is not None:
                content = base64.b64decode(png)
                picture = AttachMemory(content, name="run.png", mimetype="image/png")  # type: ignore[no-untyped-call]
            result = service.notify(
                body=given["body"],
                title=given["title"],
                notify_type=given["type"],
                body_format=given["format"],
                attach=picture,
            )
            answer = {"is_sent": bool(result), "status": result.status.name}
        else:
            answer = {"is_sent": False, "status": "the URL is not one of Apprise's"}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
