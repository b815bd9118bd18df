import { catalogue } from './catalogue.ts'

export const contentionWords = catalogue({
  lead: {
    en: 'Waits inside this server process: which commands wait, how long, and for which holder. Start with the top holder: it costs the others the most time.',
    zh: '本服务器中谁在等待、等了多久、在等谁。先看占用者：排在首位的最值得优化，它的代价是其他人的等待时间；再找到变慢的那一行。',
  },
  since: {
    en: 'Measured since {time}, in the process that answered this request.',
    zh: '自 {time} 起测量，仅限响应此请求的进程。',
  },
  sinceStart: { en: 'Measured for', zh: '测量时长' },
  waitedInAll: { en: 'Total wait', zh: '总等待' },
  worstHolder: { en: 'Top holder', zh: '最大占用者' },
  waitingNow: { en: 'Waiting now', zh: '当前排队' },

  quiet: { en: 'No waits yet', zh: '尚无等待' },
  quietNext: {
    en: 'Waits of more than a millisecond appear here automatically.',
    zh: '超过 1 毫秒的等待会自动显示在这里，无需任何配置。',
  },

  holders: { en: 'Holders', zh: '占用者排名' },
  holdersLead: { en: 'The total time that others waited for each holder.', zh: '其他操作等待它的时间总和。' },
  shareOf: { en: '{holder}: {share} of all waiting', zh: '{holder}：占总等待的 {share}' },
  gc: { en: 'garbage collection', zh: '垃圾回收暂停了线程' },
  eventLoop: { en: 'untracked code', zh: '线程忙于未登记的代码' },
  host: { en: 'operating system scheduler', zh: '机器未调度本进程' },
  store: { en: 'store response', zh: '等待存储应答' },
  other: { en: 'unknown', zh: '未知' },

  matrix: { en: 'Waiters and holders', zh: '等待矩阵' },
  matrixLead: {
    en: 'Rows wait for columns; darker means longer. “timer” is the recorder’s own timer: it shows what blocks this thread.',
    zh: '行在等待，列被等待；颜色越深时间越长。timer 是测量器自身的定时器，反映谁阻塞了线程。',
  },
  waiter: { en: 'Waiter', zh: '等待者' },
  total: { en: 'Total', zh: '合计' },
  cell: {
    en: {
      one: '{waiter} waited {span} for {holder}, {count} wait',
      other: '{waiter} waited {span} for {holder}, {count} waits',
    },
    zh: '{waiter} 等待 {holder} 共 {span}，{count} 次',
  },
  scale: { en: 'from {low} to {high}', zh: '{low} 至 {high}' },

  kinds: { en: 'Commands', zh: '命令类型' },
  kindsLead: {
    en: 'Wait is the time in the queue, hold is the run time. A bar is dark up to p50, lighter up to p90, lightest up to p99; the line is the maximum. All bars share one logarithmic scale.',
    zh: '等待是排队时间，占用是执行时间。条形由深至浅依次到中位数、90%、99%，竖线为最大值；所有条形共用对数刻度。',
  },
  kind: { en: 'Command', zh: '类型' },
  lane: { en: 'Lane', zh: '通道' },
  waits: { en: 'Waits', zh: '等待次数' },
  wait: { en: 'Wait: p50 · p99', zh: '等待：中位 · 99%' },
  holds: { en: 'Runs', zh: '执行次数' },
  hold: { en: 'Hold: p50 · p99', zh: '占用：中位 · 99%' },
  quantiles: {
    en: '{count} in total: p50 {p50}, p90 {p90}, p99 {p99}, maximum {max}',
    zh: '共 {count} 次：中位 {p50}，90% {p90}，99% {p99}，最长 {max}',
  },
  medianAnd: { en: '{p50} · {p99}', zh: '{p50} · {p99}' },

  lanes: { en: 'Lanes', zh: '通道' },
  lanesLead: {
    en: 'Queues and connection pools: running, waiting now, and the most that ever waited.',
    zh: '队列与连接池：正在执行、当前等待、历史最多等待。',
  },
  turns: { en: 'Running', zh: '占用' },
  waitingHere: { en: 'Waiting', zh: '等待' },
  peak: { en: 'Peak', zh: '历史峰值' },
  noLanes: { en: 'No lane has been used yet.', zh: '尚未使用任何通道。' },

  slowest: { en: 'Slowest commands', zh: '最慢的操作' },
  slowestLead: { en: 'Within the last one to two hours.', zh: '最近一至两小时内。' },
  about: { en: 'Target', zh: '对象' },
  waited: { en: 'Waited', zh: '等待' },
  held: { en: 'Held', zh: '占用' },
  ended: { en: 'Ended', zh: '结束' },
  both: { en: 'Wait, then hold', zh: '先等待后占用' },
  slowBar: { en: 'waited {wait}, held {hold}', zh: '等待 {wait}，占用 {hold}' },
  noSlow: { en: 'No slow commands.', zh: '没有慢操作。' },

  keys: { en: 'Contended locks', zh: '被等待的锁' },
  keysLead: {
    en: 'Time adds up over all waiters: ten waiters for one second are ten seconds.',
    zh: '按每个等待者累计：十个等待者各等一秒计为十秒。',
  },
  key: { en: 'Lock', zh: '锁' },
  line: { en: 'Holder and waiters', zh: '等待关系' },
  free: { en: 'free', zh: '空闲' },
  nobodyWaits: { en: 'none waiting', zh: '当前无等待' },
  more: { en: '+{count}', zh: '+{count}' },
  waitCount: { en: 'Finished waits', zh: '已结束等待' },
  inAll: { en: 'Total wait', zh: '累计等待' },
  longest: { en: 'Longest', zh: '最长' },
  heldBy: { en: 'Holders', zh: '等待谁' },
  unknown: { en: 'unknown', zh: '未知' },
  noKeys: { en: 'No lock had waiters', zh: '没有等待锁' },
  noKeysNext: {
    en: 'Locks appear here when they have waiters.',
    zh: '有人排队等待锁时会显示在这里。',
  },
  allLocks: { en: 'All locks', zh: '全部锁' },

  showAll: { en: 'Show all {count}', zh: '显示全部 {count} 项' },
  showFewer: { en: 'Show fewer', zh: '收起' },
  overflow: {
    en: 'Some data exceeded the limits and is counted as “other” or not at all: {kinds} commands, {tickets} runs, {cells} cells, {keys} locks.',
    zh: '部分数据超出容量，计入 other 或未统计：类型 {kinds}，命令 {tickets}，单元格 {cells}，锁 {keys}。',
  },
})
