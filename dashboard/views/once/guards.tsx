import type { ReactNode } from 'react'
import { Badge, type BadgeProps } from '../../kit/state.tsx'
import type { Column } from '../../kit/table.tsx'
import { Text } from '../../kit/text/text.tsx'
import { Time } from '../../kit/text/time.tsx'
import type { Say } from '../../words/catalogue.ts'
import type { onceWords } from '../../words/once.ts'
import type { Guard, GuardStatus } from './guard-filters.ts'

/** How a state looks. */
export const looks: Readonly<Record<GuardStatus, Pick<BadgeProps, 'tone' | 'icon'>>> = {
  running: { tone: 'busy', icon: 'running' },
  done: { tone: 'good', icon: 'completed' },
  failed: { tone: 'warn', icon: 'dead' },
  stuck: { tone: 'bad', icon: 'warning' },
}

/** What the list says of each guard. */
export function guardColumns(say: Say<typeof onceWords>): readonly Column<Guard>[] {
  return [
    { key: 'key', head: say('key'), grow: true, cell: ({ key }) => <Text value={key} mono cut /> },
    {
      ...{ key: 'status', head: say('status') },
      cell: ({ status }) => (
        <Badge {...looks[status]} title={say(`${status}Means`)}>
          {say(status)}
        </Badge>
      ),
    },
    { key: 'attempt', head: say('attempt'), align: 'end', wideOnly: true, cell: ({ attempt }) => attempt },
    { key: 'mode', head: say('mode'), wideOnly: true, cell: ({ mode }) => say(mode) },
    {
      ...{ key: 'claimed', head: say('claimed'), wideOnly: true },
      cell: ({ claimedAt }) => <Time at={claimedAt} />,
    },
    { key: 'ends', head: say('ends'), wideOnly: true, cell: (guard) => <Ends guard={guard} say={say} /> },
  ]
}

function Ends({ guard, say }: { readonly guard: Guard; readonly say: Say<typeof onceWords> }): ReactNode {
  const { status, endsAt } = guard
  if (endsAt === null) return <span className="aside">{say('untilForgotten')}</span>
  return (
    <>
      <span className="aside roomy-only">{say(status === 'running' ? 'leaseEnds' : 'forgottenAt')} </span>
      <Time at={endsAt} />
    </>
  )
}
