package dashboard

import (
	"cmp"
	"encoding/json"
)

// wallet is a wallet for withdrawals in the interface.
type wallet struct{ ID, Chain, Address, Label, Status, Challenge string }

type walletList struct {
	Data       []wallet
	NextCursor *string
}

// name returns the label of a wallet, or its address in short.
func (w *wallet) name() string { return cmp.Or(w.Label, cutID(w.Address)) }

// walletCell is a cell of a wallet's name that leads to its page.
func walletCell(v *visit, id string) (Cell, error) {
	var shown struct{ Wallet wallet }
	err := v.readInto(&shown, rampWalletPath, "id", id)
	return linkCell(shown.Wallet.name(), v.addressOf("wallets", id)), err
}

// WalletProof is the challenge of a wallet, which the script has the browser's own wallet sign.
// Kind is "solana" or "evm".
type WalletProof struct{ Kind, Address, Challenge string }

// walletPages are the list of wallets and the page on which a wallet is proven.
func walletPages() []page {
	chains := []Option{}
	for _, chain := range []string{"ethereum", "polygon", "arbitrum", "base", "optimism", "solana"} {
		chains = append(chains, Option{Value: chain, Label: inWords(chain)})
	}
	return []page{
		{path: "wallets", access: member, section: "Ramp", show: showWallets, actions: []action{
			{name: "add", method: "POST", path: "/api/ramp/wallets", title: "New wallet", submit: "Add the wallet",
				sandbox: true, then: afterWallet, fields: []Field{
					{Name: "chain", Label: "Network", Kind: fieldChoice, Required: true, Options: chains},
					{Name: "address", Label: "Address", Kind: fieldText, Required: true},
					{Name: "label", Label: "Label", Kind: fieldText, Hint: "Such as Cold wallet."}}},
		}},
		{path: "wallets/{id}", access: member, section: "Ramp", show: showWallet, actions: []action{
			{name: "prove", method: "POST", path: rampWalletPath + "/proof", title: "Prove that it is yours",
				submit: "Send the signature", sandbox: true,
				done: "The wallet is proven. The partner approves it in a moment.", fields: []Field{
					{Name: "signature", Label: "Signature", Kind: fieldText, Required: true,
						Hint: "Of the challenge, by the wallet's key: hexadecimal, or base58 of a Solana wallet."}}},
		}},
	}
}

// mostWallets is the number of wallets of a form's choice.
const mostWallets = "100"

// readWallets reads the newest wallets.
func readWallets(v *visit) (*walletList, error) {
	list := &walletList{}
	return list, v.readInto(list, rampWalletsPath, "limit", mostWallets)
}

// showWallets lists the wallets, newest first.
func showWallets(v *visit) (*View, error) {
	var list walletList
	if err := v.readInto(&list, rampWalletsPath, "cursor", v.Query.Get("cursor"), "limit", "50"); err != nil {
		return nil, err
	}
	t := &Table{Caption: "Wallets, newest first", Empty: "No wallets yet.", Columns: []Column{{Name: "Wallet",
		Role: rolePrimary}, {Name: "Network", Role: roleSecond}, {Name: "Address", Role: roleAction},
		{Name: "State", Role: roleStatus}}}
	for i := range list.Data {
		w := &list.Data[i]
		t.Rows = append(t.Rows, []Cell{linkCell(w.name(), v.addressOf("wallets", w.ID)), plainCell(inWords(w.Chain)),
			idCell(w.Address), stateCell(w.Status)})
	}
	forms, err := v.drawForms("add")
	return &View{Title: "Wallets", Lead: "USDC is sent only to a wallet that is proven to be yours.", Live: true,
		Up: &Link{"Ramp", v.addressOf("ramp")}, Blocks: append([]Block{{Table: v.addPaging(t, list.NextCursor)}},
			forms...)}, err
}

// afterWallet returns the address of the page of a new wallet.
func afterWallet(v *visit, answered []byte) (string, error) {
	var made struct{ Wallet wallet }
	err := json.Unmarshal(answered, &made)
	return v.addressOf("wallets", made.Wallet.ID), err
}

// showWallet shows one wallet. While it is not proven the page has the challenge, and takes its
// signature.
func showWallet(v *visit) (*View, error) {
	var shown struct{ Wallet wallet }
	if err := v.readInto(&shown, rampWalletPath, "id", v.recordID()); err != nil {
		return nil, err
	}
	w := &shown.Wallet
	unproven := w.Status == "unproven"
	view := &View{Title: w.name(), Badges: []Cell{stateCell(w.Status)}, Up: &Link{"Wallets", v.addressOf("wallets")},
		Lead: "Wallet on " + inWords(w.Chain), Live: !unproven}
	main := []Block{{Heading: walletMeanings[w.Status], Panel: true, Stepper: w.stepperSteps()}}
	details := []Block{{Heading: "Details", Panel: true, Facts: []Fact{{"Network", plainCell(inWords(w.Chain))},
		{"Address", copiedCell(w.Address)}, {"Id", idCell(w.ID)}}}}
	view.Blocks = []Block{{Columns: &Columns{MainSide, main, details}}}
	if !unproven {
		return view, nil
	}
	form, err := v.drawForm("prove")
	if form == nil || err != nil {
		return view, err
	}
	form.Wallet = &WalletProof{Kind: "evm", Address: w.Address, Challenge: w.Challenge}
	if w.Chain == "solana" {
		form.Wallet.Kind = "solana"
	}
	view.Blocks[0].Columns.First = append(main, Block{
		Text: "Sign the challenge, with all of its lines, by the wallet's key: with the button below when the wallet is " +
			"in this browser, or by the wallet's own way to sign a message. " +
			"Then paste the signature. Nothing is spent."}, Block{Code: &Code{ID: "challenge",
		Label: "The challenge that the wallet signs", Text: w.Challenge}}, Block{Form: form})
	return view, nil
}

// walletMeanings say what each state of a wallet waits for.
var walletMeanings = map[string]string{
	"unproven":         "Prove that the wallet is yours to withdraw to it.",
	"pending_approval": "The wallet is proven. The partner approves it.",
	walletApproved:     "USDC can be withdrawn to it.",
}

// walletWays are the states in which the stepper of a wallet stands, by the wallet's state: one for
// each of added, proven and approved.
var walletWays = map[string][3]string{
	"unproven":         {"done", "waits"},
	"pending_approval": {"done", "done", "current"},
	walletApproved:     {"done", "done", "done"},
}

// stepperSteps are the steps of a wallet.
func (w *wallet) stepperSteps() []StepperStep {
	states := walletWays[w.Status]
	steps := []StepperStep{{"Added", "", states[0]}, {"Proven", "", states[1]}, {"Approved", "", states[2]}}
	if w.Status == "unproven" {
		steps[1] = StepperStep{"Proof", "Waits for your signature", "waits"}
	}
	return steps
}
