import type { Gate } from './gate.ts'
import { type Operation, perform, type WriteCall, type Writes } from './writes.ts'

/** Whoever makes this store's writes: the gate in this thread, or one in a thread of its own (thread.ts). */
export interface Writer {
  /** Answers once it is committed. `begunAt` is since when it waits, where that is not since now. */
  write<Name extends Operation>(call: WriteCall<Name>, begunAt?: number): Promise<ReturnType<Writes[Name]>>
  /** Writes what was asked for, refuses what comes afterwards, and lets go of the file. */
  close(): Promise<void>
}

export function createGateWriter(gate: Gate): Writer {
  return {
    write: <Name extends Operation>(call: WriteCall<Name>, begunAt?: number) =>
      gate.write((connection) => perform(connection, call) as ReturnType<Writes[Name]>, {
        urgent: isUrgent(call),
        name: nameOf(call),
        begunAt,
        call: call as WriteCall,
      }),
    close: () => gate.close(),
  }
}

/** Rooms with steps of their own are told apart by those: `lock.renew`. */
function nameOf({ operation, args }: Pick<WriteCall, 'operation' | 'args'>): string {
  const hasSteps = ['lock', 'gate', 'guard', 'monitor'].includes(operation)
  return hasSteps ? `${operation}.${args[0]}` : operation
}

/** The renewal of leases goes before all else: what it comes too late for is done twice. */
export function isUrgent({ operation, args }: Pick<WriteCall, 'operation' | 'args'>): boolean {
  return operation === 'renew' || ((operation === 'lock' || operation === 'guard') && args[0] === 'renew')
}
