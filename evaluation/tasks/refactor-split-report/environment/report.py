"""A report about orders."""

import sys


def main(lines):
    customers = {}
    days = {}
    wrong = 0
    for line in lines:
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        parts = line.split(";")
        if len(parts) != 3:
            wrong += 1
            continue
        day = parts[0].strip()
        if len(day) != 10 or day[4] != "-" or day[7] != "-":
            wrong += 1
            continue
        customer = parts[1].strip().lower()
        if not customer:
            wrong += 1
            continue
        amount = parts[2].strip()
        negative = amount.startswith("-")
        if negative:
            amount = amount[1:]
        if "." in amount:
            whole, cents = amount.split(".", 1)
        else:
            whole, cents = amount, "00"
        if not whole.isdigit() or not cents.isdigit() or len(cents) != 2:
            wrong += 1
            continue
        value = int(whole) * 100 + int(cents)
        if negative:
            value = -value
        customers[customer] = customers.get(customer, 0) + value
        days[day] = days.get(day, 0) + value
    out = []
    out.append("customers")
    for name in sorted(customers, key=lambda n: (-customers[n], n)):
        value = customers[name]
        sign = "-" if value < 0 else ""
        out.append(f"  {name:<12}{sign}{abs(value) // 100}.{abs(value) % 100:02}")
    out.append("days")
    for name in sorted(days):
        value = days[name]
        sign = "-" if value < 0 else ""
        out.append(f"  {name:<12}{sign}{abs(value) // 100}.{abs(value) % 100:02}")
    out.append(f"wrong lines: {wrong}")
    return "\n".join(out)


if __name__ == "__main__":
    print(main(sys.stdin))
