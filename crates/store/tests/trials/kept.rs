//! Trials that once broke a promise, or came close. They run every time.

/// The names of the trials. A name has a seed, and the parts that are left out.
pub(crate) const TRIALS: &[&str] = &[
    // Redis lost its data, so the number of gateways fell and shares grew.
    "94-l1-w7.8.9.10.11.12-f0.2",
    // Settlements were lost with a connection, or by a slow answer.
    "202",
    // Redis had charged calls whose answers were lost.
    "26-w0.2.3-f0.2",
    "125-e0",
    // One client had several plans.
    "101",
    "118-l0.1-w0.1.3-f0.1",
    // Running requests held places of `concurrency` for long.
    "102-e0",
    "141",
    // A block began in an outage, from an earlier answer of Redis.
    "770212-l1.2-w0.4-f0-e1",
    // Reservations under several plans were released.
    "8003030",
    // In an outage, an observed limit released a charge that it had not made.
    "8003696",
    // A gateway without Redis counted slots by its share, and the share grew with a reload.
    "50003560",
    // The retry-after of a gateway without Redis was that of its share, which was longer than the block. A reload raised the limit.
    "1795469917339688",
    // A remembered refusal of a small cost was repeated for a larger cost, which had to wait longer: in a queue, and after a block.
    "9015",
    "20063",
    // Gateways with larger numbers held two units of a bucket, of which the refusing gateway has one.
    "42102579",
];
