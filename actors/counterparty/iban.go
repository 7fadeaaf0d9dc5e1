package counterparty

import "strings"

// ibanLengths holds the IBAN length of each country, by the registry of ISO 13616.
const ibanLengths = "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29 " +
	"ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 " +
	"LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24 " +
	"SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30 "

// territories lists the places whose banks use another country's IBAN.
const territories = "GB:GG GB:IM GB:JE FR:BL FR:GF FR:GP FR:MF FR:MQ FR:NC FR:PF FR:PM FR:RE FR:TF FR:WF FR:YT "

// isIBAN checks the country's length and the checksum: with the first four characters moved to the
// end and letters as 10 to 35, the number is 1 modulo 97. Check digits 00, 01 and 99 are refused:
// each is congruent to a valid pair.
func isIBAN(text string) bool {
	if len(text) < 4 || !isUpper(text[:2]) || !isDigits(text[2:4]) || !isAlphanumeric(text) {
		return false
	}
	i := strings.Index(ibanLengths, text[:2])
	if i < 0 || int(ibanLengths[i+2]-'0')*10+int(ibanLengths[i+3]-'0') != len(text) {
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

// sharesIBAN reports whether a bank of one country can keep accounts with the IBAN of another.
func sharesIBAN(iban, bank string) bool {
	return iban == bank || strings.Contains(territories, iban+":"+bank+" ")
}
