"""Adds LLDS with the settings of the authors' release to Search-R1's policy loss in every process that imports it.

``RLVITALS_HOOKS=verl,verl.search_r1_llds``; for other settings call `trainer_hooks.callbacks.verl.search_r1.add_llds`.
"""

from trainer_hooks.callbacks.verl.search_r1 import add_llds

add_llds()
