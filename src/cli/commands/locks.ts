import { Command } from 'commander'
import { SignalboxError } from '../../core/errors.ts'
import type { Printer } from '../print.ts'
import { printTable, showSpan } from '../table.ts'
import { addBoxFlags, openPlace, type PlaceFlags } from './place.ts'

interface ListFlags extends PlaceFlags {
  readonly operation?: string
  readonly search?: string
}

/** `signalbox locks ls|evict`: locks that are held or waited for, and what operators do with them. */
export function locksCommand(printer: Printer): Command {
  const list = new Command('ls')
    .alias('list')
    .description('locks that are held or waited for, with who holds them')
    .option('--operation <name>', 'of this operation alone')
    .option('--search <text>', 'whose resource contains this text')
    .addHelpText('after', '\nExamples:\n  signalbox locks ls\n  signalbox locks ls --operation pull --json')
    .action(async ({ json, operation, search, ...place }: ListFlags) => {
      await using box = await openPlace(list, place)
      const items = []
      let cursor: string | null = null
      do {
        const page: Awaited<ReturnType<typeof box.locks.list>> = await box.locks.list({
          ...(operation === undefined ? {} : { operation }),
          ...(search === undefined ? {} : { search }),
          ...(cursor === null ? {} : { cursor }),
          limit: 500,
        })
        items.push(...page.items)
        cursor = page.cursor
      } while (cursor !== null)
      if (json) return printer.json({ items })
      if (items.length === 0) return printer.line('No lock is held, and none is waited for.')
      const now = Date.now()
      printTable(
        printer,
        ['OPERATION', 'RESOURCE', 'HOLDER', 'FOR', 'LEASE LEFT', 'WAITING'],
        items.map(({ operation: done, resource, holder, waiterCount }) => [
          ...[done, resource, holder?.node ?? null],
          holder && showSpan(now - holder.since),
          holder && showSpan(holder.expiresAt - now),
          waiterCount,
        ]),
      )
    })
  return new Command('locks')
    .description('show who holds locks and who waits, and evict them')
    .helpOption('-h, --help', 'print this help')
    .helpCommand(false)
    .addHelpText(
      'after',
      '\nExamples:\n  signalbox locks ls\n  signalbox locks ls --search nginx\n  signalbox locks evict pull nginx',
    )
    .addCommand(addBoxFlags(list))
    .addCommand(evictCommand(printer))
}

interface EvictFlags extends PlaceFlags {
  readonly node?: string
  readonly requestId?: string
}

function evictCommand(printer: Printer): Command {
  const command = new Command('evict')
    .description('end the turn of a lock’s holder as a failure, or remove a waiter from its wait queue')
    .argument('<operation>', 'the operation')
    .argument('<resource>', 'the resource')
    .option('--node <node>', 'the holder or waiter to remove (default: the holder)')
    .option('--request-id <id>', 'which of its requests (default: the node’s name)')
    .addHelpText(
      'after',
      '\nThe first waiter gets the lock. The evicted program is not stopped: its renewal and release get lease_lost, and stores\n' +
        'that check the fencing token can refuse its writes.\n' +
        '\nExamples:\n  signalbox locks evict pull nginx\n  signalbox locks evict pull nginx --node machine-2 --json',
    )
    .action(async (operation: string, resource: string, flags: EvictFlags) => {
      const { node, requestId, json, ...place } = flags
      if (node === undefined && requestId !== undefined)
        throw new SignalboxError(
          'invalid_argument',
          '--request-id needs --node: it names one request of that node.',
        )
      await using box = await openPlace(command, place)
      const key = { operation, resource }
      const { holder } = await box.locks.inspect(key)
      if (node === undefined && holder === null)
        throw new SignalboxError(
          'not_found',
          `No node holds ${operation} ${resource}. Name a waiter with --node to remove it from the wait queue.`,
        )
      const who =
        node === undefined
          ? { node: holder!.node, requestId: holder!.requestId }
          : { node, requestId: requestId ?? node }
      await box.locks.evict({ ...key, ...who })
      const wasHolder = holder?.node === who.node && holder.requestId === who.requestId
      if (json) printer.json({ ...key, ...who, wasHolder, evicted: true })
      else
        printer.line(
          wasHolder
            ? `evicted ${who.node} from ${operation} ${resource}: its turn ended as a failure`
            : `removed ${who.node} from the wait queue of ${operation} ${resource}`,
        )
    })
  return addBoxFlags(command)
}
