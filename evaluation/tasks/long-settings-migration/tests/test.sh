#!/bin/bash
# The reward is 1 if every test holds, else 0.
cd /app || exit 1
if python3 -B /tests/check.py; then reward=1; else reward=0; fi
echo "$reward" > /logs/verifier/reward.txt
