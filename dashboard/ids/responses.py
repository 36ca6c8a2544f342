"""The sampled responses of a run."""

from typing import Final

FROM: Final = "responses-from"
REWARDS: Final = "responses-rewards"
REWARDS_CARD: Final = "responses-rewards-card"
STEP: Final = "responses-step"
TO: Final = "responses-to"
CORRECT: Final = "responses-correct"
QUESTIONS: Final = "responses-questions"
QUESTIONS_DRAW: Final = "responses-questions-draw"
ORDER: Final = "responses-order"
MEASURE: Final = "responses-measure"
KIND: Final = "responses-kind"
LIST: Final = "responses-list"
