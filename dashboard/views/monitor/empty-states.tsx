import type { ReactNode } from 'react'
import { Button } from '../../kit/button.tsx'
import { Empty } from '../../kit/empty.tsx'
import { useCurl } from '../../kit/text/curl.ts'
import { Code } from '../../kit/text/json.tsx'
import { serverNow } from '../../live/server-clock.ts'
import { go } from '../../shell/router.tsx'
import { useWords } from '../../words/language.tsx'
import { monitorWords } from '../../words/monitor.ts'

/** The filters leave nothing over. */
export function NothingMatches({ part }: { readonly part: string }): ReactNode {
  const say = useWords(monitorWords)
  return (
    <Empty icon="search" title={say('noMatch')}>
      <p>{say('noMatchNext')}</p>
      <Button onPress={() => go('monitor', { part })}>{say('clear')}</Button>
    </Empty>
  )
}

/** Nothing was reported: how that is done. */
export function ReportFirst({ title, next }: { readonly title: string; readonly next: string }): ReactNode {
  const report = {
    ...{ taskId: 'first-look', source: 'booking', observedAt: serverNow() },
    subjects: [{ subject: 'court-1', state: 'free' }],
  }
  const command = useCurl('v1/monitor/report', report)
  return (
    <Empty icon="monitor" title={title}>
      <p>{next}</p>
      <Code text={command} label={next} />
    </Empty>
  )
}
