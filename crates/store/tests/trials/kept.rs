//! Trials that once broke a promise, or came close: they are run each time.

/// Their names: a seed, and the parts that are left out.
pub(crate) const TRIALS: &[&str] = &[
    // A Redis that lost its data lowered the number of gateways, and with it made shares larger.
    "94-l1-w7.8.9.10.11.12-f0.2",
    // Settlements that were lost with a connection, or with a slow answer.
    "202",
    // Calls without an answer that Redis had charged.
    "26-w0.2.3-f0.2",
    "125-e0",
    // Several plans of one client.
    "101",
    "118-l0.1-w0.1.3-f0.1",
    // Places of requests that run on.
    "102-e0",
    "141",
    // A block that began in an outage, by what Redis had said before.
    "770212-l1.2-w0.4-f0-e1",
    // Reservations under several plans, given back.
    "8003030",
    // A charge that an observed limit had not made, given back in an outage.
    "8003696",
    // Slots that a gateway without Redis counted by a share that grew with a reload.
    "50003560",
    // A gateway without Redis said how long its share lasts, which is longer than the block, and a reload raised the limit.
    "1795469917339688",
    // A remembered refusal of a small cost, given to a larger cost that had to wait for longer: in a queue, and after a block.
    "9015",
    "20063",
];
