import { Command } from 'commander'
import type { Box, RemoteBox } from '../../index.ts'
import { spanOf } from '../config/value-kinds.ts'
import type { Printer } from '../print.ts'
import { printTable, showSpan } from '../table.ts'
import { addBoxFlags, openPlace, type PlaceFlags } from './place.ts'

/** `signalbox nodes ls|drain|cordon|uncordon`: the nodes that do tasks. */
export function nodesCommand(printer: Printer): Command {
  return new Command('nodes')
    .description('show the nodes that do tasks, drain and cordon them')
    .helpOption('-h, --help', 'print this help')
    .helpCommand(false)
    .addHelpText(
      'after',
      '\nExamples:\n  signalbox nodes ls --url http://127.0.0.1:7420\n  signalbox nodes drain gpu-1 --deadline 10m\n  signalbox nodes cordon gpu-1 --service asr',
    )
    .addCommand(listCommand(printer))
    .addCommand(drainCommand(printer))
    .addCommand(
      cordonCommand(printer, 'cordon', 'give a node, or one of its services, no new work until it is lifted'),
    )
    .addCommand(cordonCommand(printer, 'uncordon', 'lift a cordon; also of a node that is gone'))
}

function listCommand(printer: Printer): Command {
  const command = new Command('ls')
    .alias('list')
    .description('every node with what it offers and how much of it is in use')
    .addHelpText('after', '\nExamples:\n  signalbox nodes ls\n  signalbox nodes ls --json')
    .action(async ({ json, ...place }: PlaceFlags) => {
      await using box = await openPlace(command, place)
      if ('look' in box.dispatch) await box.dispatch.look()
      const items = await box.dispatch.nodes()
      if (json) return printer.json({ items })
      if (items.length === 0) return printer.line('No node is connected.')
      const now = Date.now()
      printTable(
        printer,
        ['NODE', 'STATUS', 'SERVICES', 'TASKS', 'SEEN', 'NOTES'],
        items.map((node) => [
          node.nodeId,
          node.status,
          node.services.map(({ name, used, slots }) => `${name} ${used}/${slots}`).join(', '),
          node.taskIds.length,
          `${showSpan(now - node.seenAt)} ago`,
          [
            ...(node.draining ? ['draining'] : []),
            ...(node.cordoned ? ['cordoned'] : []),
            ...node.services.flatMap(({ name, cordoned }) => (cordoned ? [`${name} cordoned`] : [])),
          ].join(', '),
        ]),
      )
    })
  return addBoxFlags(command)
}

interface DrainFlags extends PlaceFlags {
  readonly deadline?: string
  readonly off?: boolean
}

function drainCommand(printer: Printer): Command {
  const command = new Command('drain')
    .description('give a node no new work; what it runs may end')
    .argument('<node>', 'the node')
    .option('--deadline <span>', 'what still runs then is done elsewhere')
    .option('--off', 'give it work again')
    .addHelpText(
      'after',
      '\nExamples:\n  signalbox nodes drain gpu-1 --deadline 10m\n  signalbox nodes drain gpu-1 --off',
    )
    .action(async (node: string, { json, deadline, off = false, ...place }: DrainFlags) => {
      await using box = await openPlace(command, place)
      await box.dispatch.drain(node, {
        on: !off,
        ...(deadline === undefined ? {} : { deadlineMs: spanOf('--deadline', deadline) }),
      })
      if (json) printer.json({ nodeId: node, draining: !off })
      else printer.line(off ? `${node} is given work again` : `${node} is given no new work`)
    })
  return addBoxFlags(command)
}

interface CordonFlags extends PlaceFlags {
  readonly service?: string
}

/** A service may be cordoned before its node offers it. Says when the node has others: the name may be misspelt. */
async function showOthers(box: Box | RemoteBox, nodeId: string, service: string): Promise<string> {
  if ('look' in box.dispatch) await box.dispatch.look()
  const names = (await box.dispatch.node(nodeId))?.services.map(({ name }) => name) ?? []
  return names.length === 0 || names.includes(service)
    ? ''
    : ` (it does not offer it; it has ${names.join(', ')})`
}

/** Unlike a drain, a cordon stays when the node connects anew, and may be of one service alone. */
function cordonCommand(printer: Printer, name: 'cordon' | 'uncordon', about: string): Command {
  const command = new Command(name)
    .description(about)
    .argument('<node>', 'the node')
    .option('--service <name>', 'of this service alone (default: the whole node)')
    .addHelpText(
      'after',
      `\nExamples:\n  signalbox nodes ${name} gpu-1\n  signalbox nodes ${name} gpu-1 --service asr --json`,
    )
    .action(async (node: string, { json, service, ...place }: CordonFlags) => {
      await using box = await openPlace(command, place)
      await box.dispatch[name](node, { service })
      const cordoned = name === 'cordon'
      if (json) return printer.json({ nodeId: node, service: service ?? null, cordoned })
      const what = service === undefined ? node : `${service} of ${node}`
      const done = cordoned ? `${what} is cordoned: it gets no new work` : `${what} is no longer cordoned`
      printer.line(done + (service === undefined ? '' : await showOthers(box, node, service)))
    })
  return addBoxFlags(command)
}
