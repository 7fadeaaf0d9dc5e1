package counterparty

import (
	"strconv"
	"strings"
)

// ibanStructures holds each country's code and the structure of its BBAN, the part behind the check
// digits, by the registry of ISO 13616: runs of n digits, a capitals, or c of both.
const ibanStructures = "" +
	"AD8n12c AE19n AL8n16c AT16n AZ4a20c BA16n BE12n BG4a6n8c BH4a14c BI23n BR23n1a1c " +
	"BY4c4n16c CH5n12c CR18n CY8n16c CZ20n DE18n DJ23n DK14n DO4c20n EE16n EG25n ES20n " +
	"FI14n FK2a12n FO14n FR10n11c2n GB4a14n GE2a16n GI4a15c GL14n GR7n16c GT24c HN4a20n " +
	"HR17n HU24n IE4a14n IL19n IQ4a15n IS22n IT1a10n12c JO4a4n18c KW4a22c KZ3n13c LB4n20c " +
	"LC4a24c LI5n12c LT16n LU3n13c LV4a13c LY21n MC10n11c2n MD20c ME18n MK3n10c2n MN16n " +
	"MR23n MT4a5n18c MU4a19n3a NI4a20n NL4a10n NO11n OM3n16c PK4a16c PL24n PS4a21c PT21n " +
	"QA4a21c RO4a16c RS18n RU14n15c SA2n18c SC4a20n3a SD14n SE20n SI15n SK20n SM1a10n12c " +
	"SO19n ST21n SV4a20n TL19n TN20n TR6n16c UA6n19c VA18n VG4a16n XK16n YE4a4n18c "

// territories lists the places whose banks use another country's IBAN.
const territories = "FI:AX FR:BL FR:GF FR:GP FR:MF FR:MQ FR:NC FR:PF FR:PM FR:RE FR:TF " +
	"FR:WF FR:YT GB:GG GB:IM GB:JE "

// isIBAN checks the country's structure and the checksum: with the first four characters moved to
// the end and letters as 10 to 35, the number is 1 modulo 97. Check digits 00, 01 and 99 are
// refused: each is congruent to a valid pair.
func isIBAN(text string) bool {
	if len(text) < 4 || !isUpper(text[:2]) || !isDigits(text[2:4]) || !isBBAN(text[:2], text[4:]) {
		return false
	}
	if digits := text[2:4]; digits < "02" || digits > "98" {
		return false
	}
	rest := 0
	for _, c := range []byte(text[4:] + text[:4]) {
		if c >= 'A' {
			rest = (rest*100 + int(c-'A') + 10) % 97
		} else {
			rest = (rest*10 + int(c-'0')) % 97
		}
	}
	return rest == 1
}

// isBBAN reports whether a text has the structure of a country's BBAN. A country that is not in the
// registry has none.
func isBBAN(country, text string) bool {
	_, structures, _ := strings.Cut(ibanStructures, country)
	structure, _, known := strings.Cut(structures, " ")
	for structure != "" {
		end := strings.IndexAny(structure, "nac")
		n, err := strconv.Atoi(structure[:end])
		if err != nil || len(text) < n || !consistsOf[structure[end]](text[:n]) {
			return false
		}
		text, structure = text[n:], structure[end+1:]
	}
	return known && text == ""
}

// consistsOf holds the test of each class of characters in ibanStructures.
var consistsOf = map[byte]func(text string) bool{'n': isDigits, 'a': isUpper, 'c': isAlphanumeric}

// sharesIBAN reports whether a bank of one country can keep accounts with the IBAN of another.
func sharesIBAN(iban, bank string) bool {
	return iban == bank || strings.Contains(territories, iban+":"+bank+" ")
}
