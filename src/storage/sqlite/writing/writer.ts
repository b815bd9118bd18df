import { findOperation } from '../../sql/procedure.ts'
import type { Asker, WriteQueue } from './write-queue.ts'
import { type Operation, perform, type WriteCall, type Writes } from './writes.ts'

/** Makes the store's writes: the write queue in this thread, or the one in a separate thread (writer-thread.ts). */
export interface Writer {
  /** Answers once it is committed. `begunAt` is since when it waits, where that is not since now. */
  write<Name extends Operation>(call: WriteCall<Name>, begunAt?: number): Promise<ReturnType<Writes[Name]>>
  /** Writes what was asked for, refuses what comes afterwards, and lets go of the file. */
  close(): Promise<void>
}

/** The writer whose write queue is in this thread. */
export interface QueueWriter extends Writer {
  /** Like `write`, but answers through a callback. */
  submit(call: WriteCall, asker: Asker, begunAt?: number): void
}

export function createQueueWriter(writeQueue: WriteQueue): QueueWriter {
  const submit = (call: WriteCall, asker: Asker, begunAt?: number) =>
    writeQueue.submit((connection) => perform(connection, call), asker, {
      urgent: isUrgent(call),
      name: nameOf(call),
      begunAt,
    })
  return {
    submit,
    write: (call, begunAt) =>
      new Promise((resolve, reject) => submit(call as WriteCall, { resolve, reject } as Asker, begunAt)),
    close: () => writeQueue.close(),
  }
}

/** Shared operations have a name of their own; modules with steps are told apart by those: `lock.renew`. */
function nameOf({ operation, args }: Pick<WriteCall, 'operation' | 'args'>): string {
  if (operation === 'run') return args[0] as string
  const hasSteps = operation === 'lock'
  return hasSteps ? `${operation}.${args[0]}` : operation
}

/** The renewal of leases goes before all else: what it comes too late for is done twice. */
export function isUrgent({ operation, args }: Pick<WriteCall, 'operation' | 'args'>): boolean {
  if (operation === 'run') return findOperation(args[0] as string).lane === 'heartbeat'
  return operation === 'renew' || (operation === 'lock' && args[0] === 'renew')
}
