package dashboard

import "encoding/json"

// wallet is a wallet for withdrawals in the interface.
type wallet struct{ ID, Chain, Address, Label, Status, Challenge string }

type walletList struct {
	Data       []wallet
	NextCursor *string
}

// name returns the label of a wallet, or its address.
func (w *wallet) name() string {
	if w.Label != "" {
		return w.Label
	}
	return w.Address
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
	t := &Table{Caption: "Wallets, newest first", Empty: "No wallets yet.", Columns: []Column{{Name: "Wallet"},
		{Name: "Network"}, {Name: "State"}, {Name: "Address"}}}
	for i := range list.Data {
		w := &list.Data[i]
		t.Rows = append(t.Rows, []Cell{linkCell(w.name(), v.addressOf("wallets", w.ID)), plainCell(inWords(w.Chain)),
			stateCell(w.Status), codeCell(w.Address)})
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
	view := &View{Title: "Wallet", Lead: w.Label, Up: &Link{"Wallets", v.addressOf("wallets")}, Live: !unproven}
	view.Blocks = append(view.Blocks, Block{Facts: []Fact{{"State", stateCell(w.Status)},
		{"Network", plainCell(inWords(w.Chain))}, {"Address", codeCell(w.Address)}, {"Id", codeCell(w.ID)}}})
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
	view.Blocks = append(view.Blocks, Block{Code: &Code{ID: "challenge", Label: "The challenge that the wallet signs",
		Text: w.Challenge}}, Block{Form: form})
	return view, nil
}
