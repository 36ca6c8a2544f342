"""Elements of every HTML report: all text is escaped, nothing is loaded from elsewhere, and no script runs."""

import html
import re
import unicodedata
from typing import Final

from monitor_server.text_safety.printable import printable

__all__ = ["chip", "document", "mark_code", "text", "token"]

# Joiners are shown as they are beside these and are escapes elsewhere, where nobody would see them. The pages of the
# dashboard, which cannot be imported here, have the same rule in `dashboard.collector_client.answers`.
JOINED: Final = (
    "\u0600-\u0dff\u1000-\u109f\u1780-\u18af\u2600-\u27bf\u2b00-\u2bff"
    "\ufb50-\ufdff\ufe0f\ufe70-\ufefc\U0001f000-\U0001faff"
)
JOINER: Final = re.compile(f"(?<=[{JOINED}])[\u200c\u200d]|[\u200c\u200d](?=[{JOINED}])")
SPACES: Final = {" ": "␣", "\t": "⇥", "\n": "⏎"}

STYLE = """
:root { color-scheme: light dark; --canvas: #f5f6f8; --surface: #fff; --ink: #182130; --muted: #566174; --line: #e1e5eb;
  --accent: #2457c5; --critical: #b3202f; --warning: #9a4d00; --quiet: #0e6b5a; }
@media (prefers-color-scheme: dark) { :root { --canvas: #11161f; --surface: #19202c; --ink: #e6eaf1; --muted: #9aa6b8;
  --line: #2b3545; --accent: #7ea6ff; --critical: #ff8391; --warning: #ffb066; --quiet: #5fd3bd; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1.25rem; background: var(--canvas); color: var(--ink);
  font: 16px/1.5 -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", Arial, sans-serif; }
h1 { font-size: 1.4rem; margin: 0; overflow-wrap: anywhere; } h2 { font-size: 1.05rem; margin: 1.6rem 0 .5rem; }
p { margin: .35rem 0; } .muted { color: var(--muted); } .verdict { font-size: 1.1rem; }
article { background: var(--surface); border: 1px solid var(--line); border-radius: 10px; padding: 1.1rem 1.25rem;
  margin: 0 0 1.25rem; }
.chip { display: inline-block; border: 1.5px solid currentColor; border-radius: 99px; padding: .05rem .7rem;
  font-weight: 600; font-size: .85rem; } .critical { color: var(--critical); } .warning { color: var(--warning); }
.quiet { color: var(--quiet); } .info, .not { color: var(--muted); }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 21rem), 1fr)); gap: .9rem; }
figure { margin: 0; min-width: 0; } figcaption { display: flex; justify-content: space-between; gap: 1rem;
  font-size: .85rem; } figcaption span:first-child { font-weight: 600; }
svg { display: block; width: 100%; height: auto; } .trace { fill: none; stroke: var(--accent); stroke-width: 1.6;
  vector-effect: non-scaling-stroke; } .band { fill: var(--accent); opacity: .25; }
.alarm { stroke: var(--ink); stroke-dasharray: 4 3; vector-effect: non-scaling-stroke; }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1.1rem; font-size: .85rem; margin: .4rem 0; }
.legend i { display: inline-block; width: .8rem; height: .8rem; border-radius: 2px; margin-right: .35rem;
  vertical-align: -1px; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; vertical-align: top; padding: .35rem .7rem .35rem 0; border-top: 1px solid var(--line); }
td:last-child { overflow-wrap: anywhere; } .said { white-space: pre-wrap; }
@media (max-width: 40rem) { th, td { padding-right: .4rem; } table { font-size: .85rem; } }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: .78rem; margin: .3rem 0; }
summary { cursor: pointer; color: var(--muted); font-size: .85rem; } dt { font-weight: 600; margin-top: .5rem; }
dd { margin: 0; overflow-wrap: anywhere; } code { overflow-wrap: anywhere; }
"""


def document(title: str, body: str, *, data: str = "") -> str:
    """Return a whole HTML document.

    Args:
        title: Plain text.
        body: The elements between ``<body>`` and ``</body>``.
        data: JSON for programs, in an element that browsers neither show nor run.
    """
    # "<" begins the end of an element in HTML, and a JSON string may spell it as an escape.
    carried = (
        f'<script type="application/json" id="data">{data.replace("<", chr(92) + "u003c")}</script>' if data else ""
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{text(title)}</title><style>{STYLE}</style></head><body>{body}{carried}</body></html>\n"
    )


def chip(word: str) -> str:
    """Return a word in a frame; its first word, a severity or an outcome, determines the colour."""
    return f'<span class="chip {text(word.partition(" ")[0])}">{text(word)}</span>'


def mark_code(words: str) -> str:
    """Return a text in which the parts between backticks are code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text(words))


def text(value: object) -> str:
    r"""Return a value as escaped text; an unprintable character is its escape, such as ``\x1b``."""
    words = str(value)
    joiners = {found.start() for found in JOINER.finditer(words)}
    return html.escape(
        "".join(c if _is_shown(c) or place in joiners else printable(c) for place, c in enumerate(words)),
    )


def token(value: object) -> str:
    """Return the text of a token as code, in which white space is visible."""
    words = "".join(SPACES.get(c) or (printable(c) if c.isspace() else c) for c in str(value))
    return f"<code>{text(words)}</code>"


def _is_shown(character: str) -> bool:
    return character.isprintable() or character in "\n\t" or unicodedata.category(character) == "Zs"
