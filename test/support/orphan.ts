/**
 * Ends a test worker whose vitest is gone. Vitest ends its workers itself unless it was killed with -9; a test that
 * waits for something would then wait on, alone. SIGKILL, because vitest lets no worker exit by itself.
 */
process.once('disconnect', () => process.kill(process.pid, 'SIGKILL'))
