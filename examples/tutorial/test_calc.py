from calc import add

assert add(2, 3) == 5, f"2 + 3 is not {add(2, 3)}"
print("passed")
