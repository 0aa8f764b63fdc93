#!/bin/bash
# Copies text files into one directory.
count=0
for file in $(find $1 -name *.txt); do
  cp $file $2
  count=$((count + 1))
done
echo $count
