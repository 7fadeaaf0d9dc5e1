// A program that uses the types alone: a body that fits, an answer that is read.
import type { components, paths } from "./api.js";

const mint: paths["/api/cards"]["post"]["requestBody"]["content"]["application/json"] = {
  holderKind: "agent", holderLabel: "travel agent", monthlyLimitUsdCents: 500000, perTxnLimitUsdCents: 50000, allowedMccs: null,
};
const deposit: components["schemas"]["NewDeposit"] = { source: "bank_fiat", rail: "fednow", amountUsdCents: 100000 };
export const token = (card: components["schemas"]["Card"]): string => card.partnerCardToken + mint.holderLabel + deposit.source;
