#!/bin/bash
# The reward is the share of what is right: 1 if every banner is, and every door was opened.
cd /app || exit 1
said=$(python3 -B /tests/check.py 2>&1)
code=$?
echo "$said"
right=$(echo "$said" | sed -n 's/^\([0-9]*\) of \([0-9]*\) banners.*/\1 \2/p')
read -r found all <<< "${right:-0 1}"
again=$(echo "$said" | sed -n 's/^\([0-9]*\) doors were.*/\1/p')
python3 - "$code" "$found" "$all" "${again:-0}" > /logs/verifier/reward.json <<'EOF'
import json
import sys

code, found, every, again = map(int, sys.argv[1:])
reward = 1.0 if code == 0 else min(found / every, 0.99)
print(json.dumps({"reward": reward, "facts": found / every, "doors_tried_again": again}))
EOF
