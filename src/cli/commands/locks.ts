import { Command } from 'commander'
import type { Printer } from '../print.ts'
import { printTable, showSpan } from '../table.ts'
import { addBoxFlags, openPlace, type PlaceFlags } from './place.ts'

interface ListFlags extends PlaceFlags {
  readonly operation?: string
  readonly search?: string
}

/** `signalbox locks ls`: lines that are held or waited for. */
export function locksCommand(printer: Printer): Command {
  const list = new Command('ls')
    .alias('list')
    .description('lines that are held or waited for, with who holds them')
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
      if (items.length === 0) return printer.line('Nobody holds a lock, and nobody waits for one.')
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
    .description('show who holds locks and who waits')
    .helpOption('-h, --help', 'print this help')
    .helpCommand(false)
    .addHelpText('after', '\nExamples:\n  signalbox locks ls\n  signalbox locks ls --search nginx')
    .addCommand(addBoxFlags(list))
}
