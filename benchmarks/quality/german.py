"""The German talk: other facts, other words, the same kind of work."""

from __future__ import annotations

from .spoken import Fact, Words

__all__ = ["WORDS"]

_USER = (
    Fact(
        "user",
        "Der Export muss auf jeden Fall weiter mit Kotlin 1.8.22 laufen.",
        "Mit welcher Version von Kotlin muss der Export weiter laufen?",
        "1.8.22",
    ),
    Fact(
        "user",
        "Die Testdatenbank liegt auf dem Rechner amsel-12.",
        "Auf welchem Rechner liegt die Testdatenbank?",
        "amsel-12",
    ),
    Fact(
        "user",
        "Bitte schreib nie etwas in den Ordner altbestand_2019.",
        "In welchen Ordner darfst du nie schreiben?",
        "altbestand_2019",
    ),
    Fact(
        "user",
        "Ausgeliefert wird am 23. Februar, keinen Tag später.",
        "An welchem Tag wird ausgeliefert?",
        "23. februar|23.02|23.2.|february 23|23 february",
    ),
    Fact(
        "user",
        "Die Abnahme macht bei uns Frau Wörndl.",
        "Wer macht bei uns die Abnahme?",
        "wörndl",
    ),
    Fact(
        "user",
        "Für die Preise nehmen wir die Bibliothek Joda-Money.",
        "Welche Bibliothek nehmen wir für die Preise?",
        "joda",
    ),
    Fact(
        "user",
        "Anhänge dürfen höchstens 335 Megabyte groß sein.",
        "Wie groß dürfen Anhänge höchstens sein?",
        "335",
    ),
    Fact(
        "user",
        "Den neuen Planer nennen wir ab heute Wiedehopf.",
        "Wie nennen wir den neuen Planer?",
        "wiedehopf",
    ),
)
_ASSISTANT = (
    Fact(
        "assistant",
        "Die Anmeldung scheitert, weil der Zwischenspeicher Einträge 640 Sekunden lang behält.",
        "Wie viele Sekunden behält der Zwischenspeicher Einträge?",
        "640",
        "Warum scheitert die Anmeldung?",
    ),
    Fact(
        "assistant",
        "Der wacklige Test heißt testSchaltsekunde, er hängt von der Zeitzone ab.",
        "Wie heißt der wacklige Test?",
        "testschaltsekunde",
        "Welcher Test wackelt?",
    ),
    Fact(
        "assistant",
        "Ich habe entschieden, RabbitMQ im Versand durch eine Tabelle zu ersetzen.",
        "Wodurch wurde RabbitMQ im Versand ersetzt?",
        "tabelle|table",
        "Tu etwas gegen die Fehler im Versand.",
    ),
    Fact(
        "assistant",
        "Das Speicherleck steckt in src/bild/GlyphenSpeicher.java, die Liste dort wächst nur.",
        "In welcher Datei steckt das Speicherleck?",
        "glyphenspeicher",
        "Wohin geht der Speicher?",
    ),
    Fact(
        "assistant",
        "Der langsamen Abfrage fehlt ein Index auf der Spalte versandt_am.",
        "Auf welcher Spalte fehlt der langsamen Abfrage ein Index?",
        "versandt_am",
        "Warum ist die Abfrage so langsam?",
    ),
    Fact(
        "assistant",
        "Ich habe die Variable BLOCKGROESSE auf 425 gesetzt, größere Blöcke dauern zu lange.",
        "Auf welchen Wert hast du BLOCKGROESSE gesetzt?",
        "425",
        "Stell bitte die Größe der Blöcke ein.",
    ),
    Fact(
        "assistant",
        "Der Zweig mit der fertigen Hälfte heißt halb/biber-konto.",
        "Wie heißt der Zweig mit der fertigen Hälfte?",
        "halb/biber-konto",
        "Sichere das Fertige in einem Zweig.",
    ),
    Fact(
        "assistant",
        "Der Lieferant rundet auf drei Stellen, die Summen weichen um bis zu 0,006 ab.",
        "Um wie viel weichen die Summen höchstens ab?",
        "0,006|0.006",
        "Warum stimmen die Summen nicht?",
    ),
)
_TOOL = (
    Fact(
        "tool",
        "FEHLER Vermittler: Verbindung auf Port 7719 abgelehnt",
        "Auf welchem Port wurde die Verbindung zum Vermittler abgelehnt?",
        "7719",
        "Sieh ins Protokoll des Vermittlers.",
    ),
    Fact(
        "tool",
        "aktueller Stand: c04e83ba (letzter)",
        "Was ist der aktuelle Stand der Umstellungen?",
        "c04e83ba",
        "Zeig den Stand der Umstellungen.",
    ),
    Fact(
        "tool",
        "Bereitschaft diese Woche: Aurelio Brandstetter",
        "Wer hat diese Woche Bereitschaft?",
        "brandstetter|aurelio",
        "Druck den Plan der Bereitschaft.",
    ),
    Fact(
        "tool",
        "FEHLGESCHLAGEN SteuerTest.nullSatz - TeilungUnbestimmt",
        "Welche Ausnahme warf der Test der Steuern?",
        "teilungunbestimmt",
        "Lass die Tests der Steuern laufen.",
    ),
    Fact(
        "tool",
        "Zertifikat gültig bis: 2028-07-19",
        "Bis wann gilt das Zertifikat?",
        "2028-07-19|19. juli 2028|19.07.2028|july 19, 2028",
        "Prüf das Zertifikat.",
    ),
    Fact(
        "tool",
        "Platte /var/spool: zu 89% belegt",
        "Zu wie viel Prozent ist die Platte des Spools belegt?",
        "89",
        "Wie voll sind die Platten?",
    ),
    Fact(
        "tool",
        "Abbild registry.example.org/laden/netz:4.08.1 läuft",
        "Welche Version des Abbilds läuft?",
        "4.08.1",
        "Welche Behälter laufen?",
    ),
    Fact(
        "tool",
        "Schalter korb_neu Eigner=gruppe-reiher",
        "Welcher Gruppe gehört der Schalter korb_neu?",
        "reiher",
        "Zähl die Schalter auf.",
    ),
)

WORDS = Words(
    facts=(*_USER, *_ASSISTANT, *_TOOL),
    things=("den Korb", "die Suche", "den Import", "das Formular", "die Verwaltung"),
    sentences=(
        "Ich habe mir {x} angesehen, da ist alles in Ordnung.",
        "Für {x} bleibt noch etwas zu tun, aber nichts davon eilt.",
        "Soweit ich sehe, hat sich über {x} zuletzt niemand beschwert.",
        "Es lohnt sich vielleicht, {x} noch einmal in Ruhe zu lesen.",
        "Was vorhin über {x} gesagt wurde, gilt im Großen und Ganzen noch.",
        "Wer {x} kennt, findet sich in den Tests schnell zurecht.",
        "Man könnte {x} etwas einfacher machen, wenn Zeit wäre.",
        "Bevor jemand {x} ändert, sollten wir darüber reden.",
        "Die Namen um {x} herum sind nicht schön, aber bekannt.",
        "Lassen wir {x} vorerst so, wie es ist, und gehen weiter.",
    ),
)
