import { type ReactNode, useEffect, useRef } from 'react'
import { Button } from '../kit/button.tsx'
import { Icon } from '../kit/icon.tsx'
import { toast } from '../kit/toast.tsx'
import { useLiveness } from '../live/connection.ts'
import { queryClient } from '../live/queries.ts'
import { useFormat, useWords } from '../words/language.tsx'
import { shellWords } from '../words/shell.ts'

/** Says that the server does not answer, for as long as it does not, and then that it does. */
export function LostBanner(): ReactNode {
  const say = useWords(shellWords)
  const format = useFormat()
  const { lostAt, paused } = useLiveness()
  const wasLost = useRef(false)
  useEffect(() => {
    if (wasLost.current && lostAt === null) toast(say('back'))
    wasLost.current = lostAt !== null
  }, [lostAt, say])
  if (lostAt === null) return null
  return (
    <div className="banner" role="alert">
      <Icon name="warning" />
      <span>{say(paused ? 'lostPaused' : 'lost', { time: format.clock(lostAt) })}</span>
      <Button onPress={() => void queryClient.refetchQueries({ type: 'active' })}>{say('retryNow')}</Button>
    </div>
  )
}
