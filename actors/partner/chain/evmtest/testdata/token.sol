// SPDX-License-Identifier: Apache-2.0
// Compiled by solc 0.8.28, --optimize, EVM version paris, no metadata; the bytecode that runs is in token.hex and twice.hex.
pragma solidity 0.8.28;

// Token is as much of an ERC-20 token as a payment needs. Who holds what is in slot 0.
contract Token {
    mapping(address => uint256) public balanceOf;

    event Transfer(address indexed from, address indexed to, uint256 value);

    function symbol() external pure returns (string memory) {
        return "USDC";
    }

    function decimals() external pure returns (uint8) {
        return 6;
    }

    function transfer(address to, uint256 value) external returns (bool) {
        balanceOf[msg.sender] -= value; // checked: nobody pays what they have not
        balanceOf[to] += value;
        emit Transfer(msg.sender, to, value);
        return true;
    }
}

// Twice pays from what it holds itself, two transfers in the one transaction.
contract Twice {
    function pay(Token token, address to, uint256 first, uint256 second) external {
        token.transfer(to, first);
        token.transfer(to, second);
    }
}
