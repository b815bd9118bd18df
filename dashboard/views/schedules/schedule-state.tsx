import type { ReactNode } from 'react'
import type { WireSchedule } from '../../../src/http/client/index.ts'
import { Badge, State } from '../../kit/state.tsx'
import { Time } from '../../kit/text/time.tsx'
import { useWords } from '../../words/language.tsx'
import { schedulesWords } from '../../words/schedules.ts'

interface StandingProps {
  readonly schedule: Pick<WireSchedule, 'paused' | 'nextAt'>
}

/** Whether a schedule runs. */
export function Standing({ schedule: { paused, nextAt } }: StandingProps): ReactNode {
  const say = useWords(schedulesWords)
  if (paused) return <State name="paused" />
  if (nextAt !== null) return <State name="active" />
  return (
    <Badge tone="calm" icon="completed">
      {say('over')}
    </Badge>
  )
}

/** When it runs next. */
export function NextRun({ schedule: { paused, nextAt } }: StandingProps): ReactNode {
  const say = useWords(schedulesWords)
  if (paused) return <span className="aside">{say('whenResumed')}</span>
  return nextAt === null ? <span className="aside">{say('noNext')}</span> : <Time at={nextAt} />
}
