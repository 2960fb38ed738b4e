package prices

import "strings"

// The active currencies of ISO 4217 by the number of digits of their minor unit (list one, 2024-06; without metals,
// funds and testing codes).
const (
	digits0 = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF"
	digits2 = "AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BRL BSD BTN BWP BYN BZD " +
		"CAD CDF CHF CNY COP CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD " +
		"HKD HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK " +
		"MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB " +
		"SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD " +
		"UYU UZS VED VES WST XCD XCG YER ZAR ZMW ZWG"
	digits3 = "BHD IQD JOD KWD LYD OMR TND"
)

// minorUnit is the number of decimal places of a currency; false if the code is not an active one.
func minorUnit(code string) (int32, bool) {
	if len(code) != 3 {
		return 0, false
	}
	for _, group := range []struct {
		codes  string
		digits int32
	}{{digits0, 0}, {digits2, 2}, {digits3, 3}} {
		for known := range strings.FieldsSeq(group.codes) {
			if known == code {
				return group.digits, true
			}
		}
	}
	return 0, false
}

// KnownCurrency returns whether a code is an active currency of ISO 4217.
func KnownCurrency(code string) bool {
	_, known := minorUnit(code)
	return known
}
